//go:build !linux

package process

import (
	"errors"
	"time"
)

func usage(int) (Usage, error) { return Usage{}, errors.ErrUnsupported }

func processorTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
