package legacyclient

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// TestIDsOfSharedTasks: a session knows the tasks that it has made itself, at any replica, and no others.
func TestIDsOfSharedTasks(t *testing.T) {
	one, other, alone := new(Conn), new(Conn), new(Conn)
	one.shared.store, one.shared.key = new(store.Store), store.Key{Name: "one"}
	other.shared.store, other.shared.key = new(store.Store), store.Key{Name: "other"}
	for range 100 {
		id := one.newTaskID()
		if len(id) != uuidLength || id[versionAt] != sharedVersion || strings.Trim(id, "0123456789abcdef-") != "" {
			t.Error(id)
		}
		if !one.isShared(id) || other.isShared(id) || alone.isShared(id) {
			t.Error(id)
		}
	}
	for _, id := range []string{"", "t1", alone.newTaskID(), strings.Repeat("8", uuidLength), strings.Repeat("\xff", uuidLength)} {
		if one.isShared(id) {
			t.Error(id)
		}
	}
}

func FuzzStoredTask(f *testing.F) {
	whole := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(time.Hour).UnixMilli()))
	f.Add(append(binary.AppendUvarint(whole, 2), `{}{"content":[]}`...))
	f.Add(whole)
	f.Add(append(whole, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		if task, ok := readTask("id", value); ok && len(task.state)+len(task.result) > len(value)-9 {
			t.Errorf("%q became %+v", value, task)
		}
	})
}
