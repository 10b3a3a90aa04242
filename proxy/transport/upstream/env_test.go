package upstream

import (
	"slices"
	"strings"
	"testing"
)

func TestAllowEnv(t *testing.T) {
	environ := []string{
		"PATH=/bin", "Path=C:\\", "LC_ALL=C", "LC_=", "LANG=de=at", "XDG_DATA_HOME=/d", "XDG_HOME=/h", "XDG_DATA_DIRS=/e",
		"AWS_SECRET_ACCESS_KEY=s3cr3t", "DRAGOMAN_AUTH=s3cr3t", "dragoman_key=s3cr3t", "=C:=C:\\x", "broken", "EMPTY=",
		"NOTIFY_SOCKET=/run/systemd/notify", "WATCHDOG_USEC=1", "watchdog_pid=1", "LISTEN_PORT=1", "LISTEN_FDS=1",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS=s3cr3t", "OTEL_SERVICE_NAME=n", "CREDENTIALS_DIRECTORY=/run/c", "OURS=s3cr3t",
	}
	for _, c := range []struct{ names, want string }{
		{"", ""},
		{"PATH", "PATH Path"},
		{"path", "PATH Path"},
		{"PAT", ""},
		{"LC_*", "LC_ALL LC_"},
		{"LC_* LANG", "LC_ALL LC_ LANG"},
		{"XDG_*_HOME", "XDG_DATA_HOME"},
		{"X*D*A*E", "XDG_DATA_HOME"},
		{"*", "PATH Path LC_ALL LC_ LANG XDG_DATA_HOME XDG_HOME XDG_DATA_DIRS AWS_SECRET_ACCESS_KEY =C: EMPTY LISTEN_PORT OTEL_SERVICE_NAME"},
		{"**", "PATH Path LC_ALL LC_ LANG XDG_DATA_HOME XDG_HOME XDG_DATA_DIRS AWS_SECRET_ACCESS_KEY =C: EMPTY LISTEN_PORT OTEL_SERVICE_NAME"},
		{"DRAGOMAN_* D*", ""},
		{"DRAGOMAN_AUTH", "DRAGOMAN_AUTH"},
		{"EMPTY BROKEN", "EMPTY"},
		{"LISTEN_* OTEL_* OUR*", "LISTEN_PORT OTEL_SERVICE_NAME"},
		{"LISTEN_FDS CREDENTIALS_DIRECTORY OTEL_EXPORTER_OTLP_TRACES_HEADERS ours", "LISTEN_FDS OTEL_EXPORTER_OTLP_TRACES_HEADERS CREDENTIALS_DIRECTORY OURS"},
		{"NOTIFY_SOCKET WATCHDOG_* WATCHDOG_PID", ""},
		{strings.Join(DefaultEnv(), " "), "PATH Path LC_ALL LC_ LANG XDG_DATA_HOME"},
	} {
		var got []string
		for _, entry := range AllowEnv(environ, strings.Fields(c.names), []string{"OURS", "UNSET"}) {
			if !slices.Contains(environ, entry) {
				t.Errorf("%q: %q was not there", c.names, entry)
			}
			name, _, _ := strings.Cut(entry[1:], "=")
			got = append(got, entry[:1]+name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q: %q, want %q", c.names, got, c.want)
		}
	}
}
