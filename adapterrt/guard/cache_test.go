package guard

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

func TestCacheStaysSmall(t *testing.T) {
	var k Cache
	a := &file.Adapter{}
	for i := range 100 {
		k.put(&stored{key: cacheKey{byte(i)}, adapter: a, reply: &httpcall.Reply{}, size: cacheSize / 10}, 0)
	}
	if k.size > cacheSize || len(k.byKey) != 10 || k.order.Len() != 10 || k.get(cacheKey{99}) == nil || k.get(cacheKey{1}) != nil {
		t.Error(k.size, len(k.byKey))
	}
	if k.put(&stored{key: cacheKey{200}, adapter: a, reply: &httpcall.Reply{}, size: cacheSize/4 + 1}, 0); k.get(cacheKey{200}) != nil {
		t.Error("kept a giant")
	}
	if k.Forget(a); k.size != 0 || len(k.byKey) != 0 || len(k.cleared) != 0 {
		t.Error(k.size)
	}
}
