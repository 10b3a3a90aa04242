package file

import "slices"

// Category is the CRUDE category of an operation. [AnyCategory] stands for an
// endpoint that accepts all categories.
type Category uint8

// The categories, in the order in which files and tools name them.
const (
	AnyCategory Category = iota
	Create
	Read
	Update
	Delete
	Execute
)

var categoryNames = [...]string{"", "create", "read", "update", "delete", "execute"}

// CategoryUpper has the names of the categories in upper case, as introspection shows them.
var CategoryUpper = [...]string{"", "CREATE", "READ", "UPDATE", "DELETE", "EXECUTE"}

// String returns the category's name in lower case, "" for AnyCategory.
func (c Category) String() string { return categoryNames[c] }

// CategoryOf returns the category that word names in lower case, and whether there is one.
func CategoryOf(word string) (Category, bool) {
	i := slices.Index(categoryNames[:], word)
	return Category(max(i, 0)), i > 0
}
