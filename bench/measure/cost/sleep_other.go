//go:build !linux

package cost

import "time"

func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }
