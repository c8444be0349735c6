package host

import (
	"maps"
	"slices"
	"strings"
)

// settings are an app's settings. They are the environment of its handlers.
type settings map[string]string

// mergeSettings merges the settings of local.settings.json, the environment and
// the options. The later ones win, as in Core Tools.
func mergeSettings(local map[string]string, environ []string, options map[string]string) settings {
	s := settings{}
	maps.Copy(s, local)
	maps.Copy(s, settingsOf(environ))
	maps.Copy(s, options)
	return s
}

func settingsOf(environ []string) settings {
	s := settings{}
	for _, e := range environ {
		if name, v, ok := strings.Cut(e, "="); ok {
			s[name] = v
		}
	}
	return s
}

func (s settings) get(name string) string { return s[name] }

// environ returns the settings in the form of [os.Environ].
func (s settings) environ() []string {
	list := make([]string, 0, len(s))
	for name, v := range s {
		list = append(list, name+"="+v)
	}
	slices.Sort(list)
	return list
}

// connection returns the setting that a binding's connection names: the name
// itself if it is set, else the name with the prefix AzureWebJobs, which may
// be omitted. (Microsoft Learn, "Azure Queue storage trigger", Connections)
func (s settings) connection(name string) string {
	for _, candidate := range []string{name, "AzureWebJobs" + name} {
		for setting := range s {
			if setting == candidate || strings.HasPrefix(setting, candidate+"__") {
				return candidate
			}
		}
	}
	return name
}
