package find

// Category is what an operation does.
type Category uint8

// The categories. Any is for an operation of unknown category.
const (
	Any Category = iota
	Create
	Read
	Update
	Delete
	Execute
)
