package guard

import (
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

func TestCacheStaysSmall(t *testing.T) {
	k := NewCache(time.Now)
	a := &file.Adapter{}
	p := k.begin(a)
	put := func(i, size int) {
		k.put(p, cacheKey{byte(i)}, &httpcall.Reply{Body: make([]byte, size)}, time.Hour)
	}
	for i := range 100 {
		put(i, cacheSize/10-1024)
	}
	if k.size > cacheSize || len(k.byKey) != 10 || k.order.Len() != 10 || k.get(cacheKey{99}) == nil || k.get(cacheKey{1}) != nil {
		t.Error(k.size, len(k.byKey))
	}
	if put(200, cacheSize/4); k.get(cacheKey{200}) != nil {
		t.Error("kept a giant")
	}
	if k.Clear(a); k.size != 0 || len(k.byKey) != 0 {
		t.Error(k.size)
	}
	put(1, 1)
	if k.end(p); k.size != 0 || len(k.pending) != 0 {
		t.Error("kept an answer that was asked for before its adapter was cleared", k.size, len(k.pending))
	}
}
