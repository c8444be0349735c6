// Package place reads and writes rows outside of tables: exports, and files of JSON lines and CSV.
//
// An export is a table's rows as objects of a directory or of a blob container ([Objects]):
//
//	export.json     the claim, put first
//	data/NAME       the rows, in files whose keys are sorted and disjoint
//	files.jsonl     a line a file, in table order ([File])
//	manifest.json   put last: the export is complete if it is there ([Manifest])
//
// The claim and the manifest prove themselves: their last member is the hash of all that stands before it. An export of many tables
// has an export in each part that a table's name names, and besides:
//
//	tables-claim.json   the claim, put first
//	tables.json         put last: the export is whole if it is there ([Tables])
//
// NAME is ORDER-HASH.EXT: six digits or a step's id, and the first 16 hex digits of the content's SHA-256. No object is
// ever replaced.
//
// A data file is a sequence of pages of at most 1,000 rows and, unless a single row has more, 4 MiB of JSON lines. A page
// is the unit of encoding: a zstd frame, a gzip member or plain text. files.jsonl has the length and the hash of each, and
// the manifest has the hash of files.jsonl. So a reader proves each page before it uses a row of it, and reads no
// more than it asks for.
//
// A complete export answers queries as a table does ([Export.Read]). Its token is the page's place: FILE/PAGE, and the row
// in it. The command line's [Writer] makes exports. It keeps the lines of files.jsonl in a journal ([journal.File]) until it has
// them all, which is what a killed export goes on from. [Windows] reads
// files that are no export, JSON lines or [CSV], in any order of rows.
package place
