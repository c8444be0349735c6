package host

import (
	"maps"
	"slices"

	"tablesweep/internal/storage"
)

// mergeSettings returns the environment variables of the handlers. The options override the host's own environment, which overrides
// local.settings.json, as in Core Tools.
func mergeSettings(local map[string]string, environ []string, options map[string]string) storage.Settings {
	s := storage.Settings{}
	maps.Copy(s, local)
	maps.Copy(s, storage.SettingsOf(environ))
	maps.Copy(s, options)
	return s
}

// environ returns the settings in the form of [os.Environ].
func environ(s storage.Settings) []string {
	list := make([]string, 0, len(s))
	for name, v := range s {
		list = append(list, name+"="+v)
	}
	slices.Sort(list)
	return list
}
