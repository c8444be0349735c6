package storage

// AppendRows appends rows in a form that [ParseRows] reads, without ETags and
// Timestamps. It is for rows that a process puts aside, not for other programs.
func AppendRows(b []byte, rows []Entity) []byte {
	b = append(b, `{"value":[`...)
	for i, e := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.AppendJSON(b)
	}
	return append(b, `]}`...)
}

// ParseRows reads what [AppendRows] wrote. The rows' values are parts of text, which must
// not be changed afterwards.
func ParseRows(text []byte) ([]Entity, error) { return decodePage(text) }
