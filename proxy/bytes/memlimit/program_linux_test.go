package memlimit

import (
	"os"
	"slices"
	"testing"
)

func TestOnlyPagesOfTheFileAreLetGo(t *testing.T) {
	const zero = "\nRss: 4 kB\nAnonymous: 0 kB\nKSM: 0 kB\nSwap: 0 kB\nSwapPss: 0 kB\nVmFlags: rd ex mr mw me sd\n"
	for why, c := range map[string]struct {
		smaps string
		want  []pages
	}{
		"text and constants": {
			"00401000-00e29000 r-xp 00001000 fe:00 12 /bin/p" + zero + "00e2a000-01852000 r--p 00a2a000 fe:00 12 /bin/p" + zero,
			[]pages{{0x401000, 0xa28000}, {0xe2a000, 0xa28000}},
		},
		"writable":          {"00401000-00e29000 rw-p 00001000 fe:00 12 /bin/p" + zero, nil},
		"shared":            {"00401000-00e29000 r--s 00001000 fe:00 12 /bin/p" + zero, nil},
		"another file":      {"00401000-00e29000 r-xp 00001000 fe:00 12 /lib/p" + zero, nil},
		"no file":           {"00401000-00e29000 r-xp 00000000 00:00 0" + zero, nil},
		"a deleted file":    {"00401000-00e29000 r-xp 00001000 fe:00 12 /bin/p (deleted)" + zero, nil},
		"with relocations":  {"00401000-00e29000 r--p 00001000 fe:00 12 /bin/p\nAnonymous: 8 kB\nSwap: 0 kB\n", nil},
		"with them swapped": {"00401000-00e29000 r--p 00001000 fe:00 12 /bin/p\nAnonymous: 0 kB\nSwap: 8 kB\n", nil},
		"without numbers":   {"00401000-00e29000 r--p 00001000 fe:00 12 /bin/p\nAnonymous:\nSwap:\n", nil},
		"cut off":           {"00401000-00e29000 r--p 00001000 fe:00 12 /bin/p\nAnonymous: 0 kB\n", nil},
		"no range":          {"00401000 r--p 00001000 fe:00 12 /bin/p" + zero + "x-y r--p 0 0 0 /bin/p" + zero + "2000-1000 r--p 0 0 0 /bin/p" + zero, nil},
		"nothing":           {"\n\n", nil},
	} {
		if got := programPages([]byte(c.smaps), "/bin/p"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %x, want %x", why, got, c.want)
		}
	}
}

// TestTheProgramRunsOnWithoutItsPages: all that is let go is there again when it is needed.
func TestTheProgramRunsOnWithoutItsPages(t *testing.T) {
	name, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	if len(programPages(smaps, name)) == 0 {
		t.Error("there is nothing to let go")
	}
	for range 20 {
		releaseProgram()
		TestMemoryIsFreedWhenNothingPasses(t)
	}
}
