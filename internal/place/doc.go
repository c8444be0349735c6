// Package place reads and writes rows outside tables: in exports, and in files of JSON lines or CSV.
//
// An export consists of objects ([Objects]) in a directory or a blob container:
//
//	export.json     the claim, written first
//	data/NAME       the rows, in files whose keys are sorted and disjoint
//	files.jsonl     one line for each file, in table order ([File])
//	manifest.json   written last: the export is complete if it exists ([Manifest])
//
// The last member of the claim and of the manifest is the hash of everything before it. An export of many tables contains an export of each table, in a
// directory or prefix with the table's name. The export of many tables also has these objects:
//
//	tables-claim.json   the claim, written first
//	tables.json         written last: the export is complete if it exists ([Tables])
//
// NAME is ORDER-HASH.EXT. ORDER is six digits or a step's id, and HASH is the first 16 hex digits of the content's SHA-256. An object is never
// replaced.
//
// A data file is a sequence of pages. A page has at most 1,000 rows and, unless a single row is larger, 4 MiB of JSON lines. Each page is encoded
// separately: as a zstd frame, as a gzip member or as plain text. files.jsonl contains the length and the hash of each page, and the manifest
// contains the hash of files.jsonl. So a reader can check each page before it uses the page's rows, and reads only the pages that it needs.
//
// A complete export answers queries like a table ([Export.Read]). A token is FILE/PAGE/ROW: the index of the next row's file, the index of its page
// in this file, and its index on this page. The command writes exports with [Writer]. Until all files are written, the Writer keeps the lines of
// files.jsonl in a journal ([journal.File]), from which a killed export resumes. [Windows] reads JSON lines or [CSV] that are not part of an export.
// The rows of such an input may be in any order.
package place
