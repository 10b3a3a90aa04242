package cost

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
)

// watching measures what it costs that calls are watched: the same calls with a reader and without, in turns.
func (c *comparison) watching(ctx context.Context) error {
	const token = "a-token-for-measurements-of-watching"
	watched := func(name string, env ...string) (variant, string, error) {
		at, err := process.FreeAddress()
		return variant{name, append(env, "DRAGOMAN_ADMIN_LISTEN="+at, "DRAGOMAN_INSPECT_ENABLED=true", "DRAGOMAN_INSPECT_TOKEN="+token)}, at, err
	}
	kept, _, err := watched("rows kept", "DRAGOMAN_INSPECT_KEEP=true")
	if err != nil {
		return err
	}
	opened, at, err := watched("page open")
	if err != nil {
		return err
	}
	reading, cancel := context.WithCancel(ctx)
	var page sync.WaitGroup
	page.Go(func() { readPage(reading, "http://"+at+"/inspect/feed", token) })
	defer page.Wait()
	defer cancel()
	// The last one says how far two equal ways differ.
	all := []variant{{dragoman, nil}, kept, opened, {"once more", nil}}
	only, err := c.variants(ctx, all, small) // of small calls alone, for their memory
	if err != nil {
		return err
	}
	mixed, err := c.variants(ctx, all, small, list, large)
	if err != nil {
		return err
	}
	for i := 1; i < len(all); i++ {
		name := all[i].name
		c.goal(name+": CPU per small call, × without", ratio(only[i], only[0], small), 1.05, 1.15)
		c.goal(name+": CPU per list of 50 tools, × without", ratio(mixed[i], mixed[0], list), 1.1, 1.3)
		c.goal(name+": CPU per result of 1 MB, × without", ratio(mixed[i], mixed[0], large), 1.1, 1.3)
		c.goal(name+": small calls, MB over without", mostMemory(only[i])-mostMemory(only[0]), 20, 24)
		c.goal(name+": all calls, MB over without", mostMemory(mixed[i])-mostMemory(mixed[0]), 20, 24)
	}
	return nil
}

// mostMemory is the most memory of a way, in MB.
func mostMemory(w *way) (most float64) {
	for _, m := range w.cells {
		most = max(most, float64(m.resident)/1e6)
	}
	return most
}

// readPage reads the feed of the page as a browser does, until ctx ends: again and again, while there is a dragoman.
func readPage(ctx context.Context, url, token string) {
	for ; ctx.Err() == nil; wait(ctx, again) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue // it is not there yet, or is no longer there
		}
		if resp.StatusCode != http.StatusOK {
			fmt.Fprintln(os.Stderr, "the page:", resp.Status)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// again is how long the page waits before it opens the feed again.
const again = 100 * time.Millisecond
