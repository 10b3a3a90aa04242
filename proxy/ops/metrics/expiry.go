package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var certificateExpiry = prometheus.NewDesc("dragoman_certificate_expiry_seconds",
	"Time until a certificate expires: that of the listener, dragoman's own for the server (client), or the last one of the server.",
	[]string{"certificate"}, nil)

// Expiries is a collector for the certificates in use. It returns when each expires, by its name; the zero time means
// that there is none.
type Expiries func() map[string]time.Time

// Describe implements [prometheus.Collector].
func (Expiries) Describe(to chan<- *prometheus.Desc) { to <- certificateExpiry }

// Collect implements [prometheus.Collector].
func (now Expiries) Collect(to chan<- prometheus.Metric) {
	for name, end := range now() {
		if !end.IsZero() {
			to <- prometheus.MustNewConstMetric(certificateExpiry, prometheus.GaugeValue, time.Until(end).Seconds(), name)
		}
	}
}
