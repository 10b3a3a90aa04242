//go:build !linux

package openloop

import "time"

func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }
