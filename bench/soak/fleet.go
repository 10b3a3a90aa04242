package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/fleet"
)

// fleetEach is the number of clients of each revision at each of the two services of the fleet.
const fleetEach = 2

// fleet adds two services of three replicas each, which share a store, behind balancers without affinity, one of which is nginx
// where it is installed. A replica is killed every ten seconds, and the store's engine is restarted once.
func (s *stage) fleet(length time.Duration) func() error {
	return func() error {
		c := &counts{}
		proof := fleet.Proof{Binary: s.binary, Dir: filepath.Join(s.dir, "fleet"), Time: length - 10*time.Second, KillEvery: 10 * time.Second, Clients: fleetEach, Nginx: fleet.HasNginx(), Out: os.Stdout}
		s.beside = append(s.beside, beside{"replicas with a store", c, func(ctx context.Context) {
			results, err := proof.Run(ctx)
			if errors.Is(err, fleet.ErrNoEngine) {
				c.good.Add(1)
				c.note("skipped: " + err.Error())
				return
			}
			fmt.Println(results)
			c.good.Add(int64(results.Good()))
			if err != nil {
				c.failed.Add(1)
				fmt.Fprintln(os.Stderr, "replicas with a store:", err)
			}
		}, func() {}})
		return os.Mkdir(proof.Dir, 0o700)
	}
}
