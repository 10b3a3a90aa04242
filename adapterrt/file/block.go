package file

// A block is a map in an adapter file, or some keys of one. The check of a section accepts the keys of its blocks and no
// others, and docs/adapter-format.md is generated from the same blocks.
type block struct {
	at    string // operations.CATEGORY[].pagination; "" if the page does not list the keys
	about string // sentences about the whole block
	keys  []key
}

// A key is a key of a block.
type key struct {
	name   string
	takes  string // the type, range or words, as problems name what they expect
	absent string // the default, as files write it; must for a required key; "" if no value stands for it
	means  string // "" for another way to give what the key above gives
}

// must stands in [key.absent] for a key that is required.
const must = "required"

// top is [block.at] of the front matter itself.
const top = "The whole front matter"

// names returns the names of the keys of blocks.
func names(blocks []*block) (all []string) {
	for _, b := range blocks {
		for i := range b.keys {
			all = append(all, b.keys[i].name)
		}
	}
	return all
}

// has reports whether one of blocks has a key of that name.
func has(blocks []*block, name string) bool {
	for _, b := range blocks {
		for i := range b.keys {
			if b.keys[i].name == name {
				return true
			}
		}
	}
	return false
}
