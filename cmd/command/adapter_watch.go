package command

import (
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// adapterConcerns returns the concern of the adapters that srv serves, if any.
func adapterConcerns(srv *proxy.Server, cfg config.Config) []*concern {
	if len(cfg.Adapters.Sources) == 0 {
		return nil
	}
	c := adapterConcern(cfg.Adapters.List, srv.ReloadAdapters)
	find := c.files
	c.files = func() (files, folders []string) {
		files, folders = find()
		return append(files, srv.Adapters.Authorities()...), folders
	}
	return []*concern{c}
}

// adapterConcern returns a concern for the files of sources. reload reads them again.
func adapterConcern(sources func() []file.Source, reload func(because string)) *concern {
	return &concern{
		files: func() (files, folders []string) {
			all := sources()
			files, _ = file.Find(all) // reload reports the errors
			for _, s := range all {
				folders = append(folders, foldersOf(s)...)
				if !isFolder(s.Path) {
					files = append(files, s.Path) // it may be missing now and be created later
				}
			}
			return files, folders
		},
		read: reload,
	}
}

// foldersOf returns the folders in which adapter files of s may be created.
func foldersOf(s file.Source) []string {
	if !isFolder(s.Path) {
		return nil
	}
	out := []string{s.Path}
	if !s.Recursive {
		return out
	}
	root := filepath.Clean(s.Path)
	if path, err := filepath.EvalSymlinks(root); err == nil {
		root = path // WalkDir does not follow a link
	}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir() || path == root:
		case strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		default:
			out = append(out, path)
		}
		if len(out) > maxFolders {
			return fs.SkipAll
		}
		return nil
	})
	return out
}
