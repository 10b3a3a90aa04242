package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
)

// columns are those of a sample, with what a process may hold after the load that it did not hold before: buffers and connections that
// are kept, and what a moment has by chance.
var columns = [...]struct {
	name string
	more float64
}{{"RSS MB", 30}, {"goroutines", 30}, {"files", 20}, {"children", 2}}

type sample [len(columns)]float64

// subject is one dragoman and what it held at first and last.
type subject struct {
	name   string
	proxy  *process.Process
	load   *load // two subjects may share one
	before sample
	last   sample
}

// look looks at all subjects at once: on a busy machine each look takes a second.
func look(ctx context.Context, watched []*subject) error {
	var looks errgroup.Group
	for _, s := range watched {
		looks.Go(func() error {
			if err := s.look(ctx); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			return nil
		})
	}
	return looks.Wait()
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
	s.last = sample{float64(u.Resident) / 1e6, n, float64(u.Files), float64(u.Children)}
	return err
}

// watch looks at all subjects until ctx ends, and prints what they hold.
func watch(ctx context.Context, watched []*subject, every time.Duration) error {
	fmt.Printf("%6s  %-10s %10s %10s %10s %10s %12s\n", "s", "server", "RSS MB", "goroutines", "files", "children", "good calls")
	for began := time.Now(); wait(ctx, every); {
		if err := look(ctx, watched); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		for _, s := range watched {
			fmt.Printf("%6.0f  %-10s %10.1f %10.0f %10.0f %10.0f %12d\n", time.Since(began).Seconds(), s.name, s.last[0], s.last[1], s.last[2], s.last[3], s.load.good.Load())
		}
	}
	return nil
}

// rest is how long what was open may be held after the load. Abandoned sessions are swept once a minute.
const rest = 100 * time.Second

// leftovers waits until no subject holds more than before the load, and returns an error that names what one still does.
func leftovers(ctx context.Context, watched []*subject) error {
	for end := time.Now().Add(rest); ; wait(ctx, time.Second) {
		errs := []error{look(ctx, watched)}
		for _, s := range watched {
			errs = append(errs, s.leftover())
		}
		if err := errors.Join(errs...); err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}

func (s *subject) leftover() error {
	var errs []error
	for i, c := range columns {
		if s.last[i] > s.before[i]+c.more {
			errs = append(errs, fmt.Errorf("%s: %s: %.1f before the load, %.1f after it", s.name, c.name, s.before[i], s.last[i]))
		}
	}
	return errors.Join(errs...)
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
