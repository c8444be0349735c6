package record

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Merge applies a JSON merge patch (RFC 7396) to the record: fields of the patch replace the record's fields, null removes a
// field, and objects are merged. If the patch has an annotation for a field, the new value has the annotated type. Without an
// annotation, the new value has the type that its JSON shows, whatever the old type was. Errors are those of [Parse].
func (r Record) Merge(patch []byte) (Record, error) {
	changes, err := split(patch, maxMembers)
	if err != nil {
		return Record{}, err
	}
	members, err := split(r.AppendJSON(nil), maxMembers)
	if err != nil {
		return Record{}, err
	}
	changed := map[string]bool{}
	for _, m := range changes {
		if depth(m.value) > maxDepth { // the merged record would be too deep, so the merge need not begin
			return Record{}, tooDeep(m)
		}
		changed[m.name+typeSuffix] = true
	}
	members = slices.DeleteFunc(members, func(old member) bool { return changed[old.name] })
	if members, err = merge(members, changes); err != nil {
		return Record{}, err
	}
	return parse(members)
}

// merge applies changes to the members of an object.
func merge(members, changes []member) ([]member, error) {
	at := make(map[string]int, len(members))
	for i, m := range members {
		at[m.name] = i
	}
	gone := map[string]bool{}
	for _, change := range changes {
		if change.value.Kind() == 'n' {
			gone[change.name] = true
			continue
		}
		i, there := at[change.name]
		if !there {
			i = len(members)
			members = append(members, member{name: change.name})
		}
		var err error
		if members[i].value, err = mergeValue(members[i].value, change.value); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(members, func(m member) bool { return gone[m.name] }), nil
}

// mergeValue applies a patch to a value. The old value may be missing.
func mergeValue(old, patch jsontext.Value) (jsontext.Value, error) {
	if patch.Kind() != '{' {
		return patch, nil
	}
	var members []member
	if old.Kind() == '{' {
		var err error
		if members, err = split(old, maxNested); err != nil {
			return nil, err
		}
	}
	changes, err := split(patch, maxNested)
	if err != nil {
		return nil, err
	}
	if members, err = merge(members, changes); err != nil {
		return nil, err
	}
	b := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, m.name), ':')
		b = append(b, m.value...)
	}
	return append(b, '}'), nil
}
