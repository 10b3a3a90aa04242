//go:build !linux

package process

import "errors"

func usage(int) (Usage, error) { return Usage{}, errors.ErrUnsupported }
