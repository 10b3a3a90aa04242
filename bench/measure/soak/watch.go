package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
)

// columns are those of a sample, with their noise: how much samples may differ by chance, because each shows another moment of a busy
// process, which gives memory back when nothing passes for two seconds.
var columns = [...]struct {
	name  string
	noise float64
}{{"RSS MB", 15}, {"goroutines", 30}, {"files", 20}, {"children", 8}}

// subject is one dragoman and its samples.
type subject struct {
	name    string
	proxy   *process.Process
	load    *load // two subjects may share one
	samples [][len(columns)]float64
}

// sample samples all subjects until ctx ends, and prints the samples.
func sample(ctx context.Context, watched []*subject, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	fmt.Printf("%6s  %-9s %10s %10s %10s %10s %12s\n", "s", "server", "RSS MB", "goroutines", "files", "children", "good calls")
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		// All at once: on a busy machine each look takes a second, and one after the other would give too few samples.
		var looks errgroup.Group
		for _, s := range watched {
			looks.Go(func() error {
				if err := s.look(ctx); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				return nil
			})
		}
		if err := looks.Wait(); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		for _, s := range watched {
			last := s.samples[len(s.samples)-1]
			fmt.Printf("%6.0f  %-9s %10.1f %10.0f %10.0f %10.0f %12d\n", time.Since(began).Seconds(), s.name,
				last[0], last[1], last[2], last[3], s.load.good.Load())
		}
	}
}

func (s *subject) look(ctx context.Context) error {
	select {
	case <-s.proxy.Done():
		return errors.New("dragoman has ended")
	default:
	}
	u, err := s.proxy.Usage()
	if err != nil {
		return err
	}
	n, err := gauge(ctx, strings.TrimSuffix(s.proxy.URL(), "/mcp")+"/metrics", "go_goroutines")
	if err != nil {
		return err
	}
	s.samples = append(s.samples, [len(columns)]float64{float64(u.Resident) / 1e6, n, float64(u.Files), float64(u.Children)})
	return nil
}

// gauge reads one metric without labels.
func gauge(ctx context.Context, url, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, 4<<20))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s: no %s (status %d)", url, name, resp.StatusCode)
}

// judge returns an error that names what grew.
func (s *subject) judge() error {
	var errs []error
	if len(s.samples) < minSamples {
		errs = append(errs, fmt.Errorf("%s: %d samples are too few to judge", s.name, len(s.samples)))
	} else {
		for i, c := range columns {
			values := make([]float64, len(s.samples))
			for k := range s.samples {
				values[k] = s.samples[k][i]
			}
			if from, to, ok := flat(values, c.noise); !ok {
				errs = append(errs, fmt.Errorf("%s: %s grew from %.1f to %.1f", s.name, c.name, from, to))
			}
		}
	}
	return errors.Join(errs...)
}

// end stops the process. It returns an error if the process took too long to end.
func (s *subject) end() error {
	began := time.Now()
	if s.proxy.Stop(); time.Since(began) > maxStop {
		return fmt.Errorf("%s: it took %v to end", s.name, time.Since(began))
	}
	return nil
}

// maxStop is how long a process may take to end. Process.Stop kills it a little later.
const maxStop = 14 * time.Second

// flat compares the first deciles of the middle and of the last third of at least three values. It compares low
// values because abandoned sessions accumulate until a sweep, and only what is left after that
// counts. The last third may be greater by noise, or by a tenth.
func flat(values []float64, noise float64) (middle, last float64, ok bool) {
	n, third := len(values), len(values)/3
	middle, last = low(values[n-2*third:n-third]), low(values[n-third:])
	return middle, last, last <= middle+max(noise, middle/10)
}

func low(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/10]
}
