package requests

// few is how many requests an index holds in a list.
const few = 8

// index holds the newest request of each key. Most sessions have few open requests: those are in a list, which needs a tenth of
// the memory of a map. The zero value is empty.
type index[T More] struct {
	list []*Request[T]
	more map[string]*Request[T] // used instead of list, once there were more than few; nil before
}

// get returns the request of a key, or nil.
func (x *index[T]) get(key string) *Request[T] {
	if x.more != nil {
		return x.more[key]
	}
	for _, c := range x.list {
		if c.Key == key {
			return c
		}
	}
	return nil
}

// put makes c the request of its key.
func (x *index[T]) put(c *Request[T]) {
	if x.more != nil {
		x.more[c.Key] = c
		return
	}
	for i, other := range x.list {
		if other.Key == c.Key {
			x.list[i] = c
			return
		}
	}
	if len(x.list) < few {
		x.list = append(x.list, c)
		return
	}
	x.more = make(map[string]*Request[T], 2*few)
	for _, other := range x.list {
		x.more[other.Key] = other
	}
	x.more[c.Key], x.list = c, nil
}

// drop removes the request of a key.
func (x *index[T]) drop(key string) {
	if x.more != nil {
		delete(x.more, key)
		return
	}
	last := len(x.list) - 1
	for i, c := range x.list {
		if c.Key == key {
			x.list[i] = x.list[last]
			x.list[last] = nil
			x.list = x.list[:last]
			return
		}
	}
}

// all gives each request, which the loop must not drop.
func (x *index[T]) all(yield func(*Request[T]) bool) {
	for _, c := range x.list {
		if !yield(c) {
			return
		}
	}
	for _, c := range x.more {
		if !yield(c) {
			return
		}
	}
}

// clear removes all requests.
func (x *index[T]) clear() {
	clear(x.list)
	x.list = x.list[:0]
	clear(x.more)
}
