// Package adaptive splits a scan by what its pages reveal about the rows to come. It has one model of key density and two
// drivers. [Strategy] implements [scan.Strategy]: its whole memory travels in the steps. [Workers] share memory. Both are pure:
// they make no queries.
//
// # The idea
//
// A scan that reads page after page makes the fewest queries and takes the longest. To go faster it is cut into pieces, but every
// piece has a cost: its last page is half full on average, and a piece without rows costs a whole query. To cut pieces of many
// pages, a scan must know how many rows there are, and where.
//
// Nobody knows, but every page is evidence. A thousand keys from "k1" to "k3" suggest some three thousand up to "k9". But keys
// are more than numbers: paths, URLs and dotted names share long prefixes, and their subtrees differ in size a thousandfold. A
// strand consists of the steps that read one piece one after another. It carries a [trail], which records for each level how many
// siblings it has met beside the last key's path, and in which share of the level. After each page
//
//   - the strand learns which characters keys branch into ([alphabet]): "3" may
//     be one of ten digits, or the only digit that occurs;
//   - it learns how often keys fork after a separator, a digit or another
//     character ([forks]), because the letters of a fixed name have no siblings;
//   - it climbs from the last key up and measures what lies ahead ([gauge]).
//     Where it has met siblings, it assumes that their density continues. Where
//     it has met none, it is blind and relies on the forks;
//   - it cuts the rest into up to twelve pieces, one more for each page and a
//     half that it expects ahead, as far as it has credit. Near pieces are
//     smaller, because the nearest keys are known best.
//
// Measurements are poor, and the truth is often a hundred times more. Therefore pieces are small, and credit limits the cuts. A
// scan starts with credit for sixty cuts, every page earns one, a cut costs one, and pieces share the rest. Each piece may make
// at least one cut, and up to five if it is expected to be long and has not been cut blindly. Where there are rows, there is
// credit. The first page is always cut into twelve, because the start of a table reveals little about the rest.
//
// Where keys have left ASCII, the strand assumes that half of the letters between the last key and the end are still unknown, at
// even distances, because a script may have thousands.
//
// A blind cut may leave its right piece empty, and the left piece never learns this. Therefore a strand that has cut blindly, and
// its pieces, expect fewer keys in unknown levels until they find some.
//
// A partition that fills two pages becomes a strand of its own, cut by row keys and read at the same time as the rest after it.
// Shorter partitions are read without cuts, which would cost queries for few rows.
//
// The transcripts in testdata show small tables being cut, query by query: keys with a long common prefix, a heavy subtree, a
// giant partition, and a scan with hints.
//
// # Cutting a strand that has a token
//
// The first piece continues after the page, and the service ties a continuation token to the query that returned it. Therefore
// this step repeats the same query, with the same token and filter. Its state names the key where the next piece starts. The step
// yields no rows from that key on, and ends with the page that has such rows. Only rows of this last page are read twice. A new
// query from the last key on would read a cut partition again, or need a step for the rest of it. The token with a narrower
// filter would save a page, but no document allows that.
//
// # Hints
//
// Most tables were scanned before. [scan.Hints] are keys that an earlier scan read, at most six pages apart. The first steps
// distribute the hints, and each step reads the piece between two of them. The pieces cover the whole range whatever the table
// looks like now. All of the above applies to them, with more caution. A scan keeps its own copy of its hints, because steps
// refer to them by number.
//
// # Several queries an invocation
//
// An invocation that may make several queries reads the pieces that it has cut at once, beside its own next page. Then a cut
// without rows after it costs a query and no message. If a page has rows, they count as read, and its step continues from there
// in the same way.
//
// # In one process
//
// Workers that share memory send no messages. Each reads a [Piece], page by page. A worker without a piece becomes a thief: it
// takes a part of the unread keys of another piece, its victim. A wrong cut costs a query and delays nobody, so no credit is
// needed. Letters and forks are learned from all pages together, and each piece has its own trail.
//
// Each piece that is worth a quarter of a page gets one thief before any gets two; the largest get more. If a thief finds
// nothing, its victim becomes worth less to other thieves, and expects fewer keys in unknown levels. A piece that continues to
// return pages without being robbed is worth at least the pages that it has read.
//
// A piece's end moves to the cut at once. Rows after the end belong to the thief, even if the page that the victim is reading
// contains them. Therefore every row has one owner at any moment. A thief that finds nothing has proved its part empty.
//
// # Decided once
//
// Children depend on the page, and a page read again may differ. Therefore the step's commit stores them. A repeated delivery
// finds the step committed, and decides nothing.
//
// # What it does not do
//
// The strategy does not adapt to the number of workers or to the speed of the service. It cannot foresee a subtree with more rows
// than any before it, or letters that sort after all that it has seen. It finds them after a few pages. Small tables and
// partitions of two to three pages cost up to twice the queries of a serial scan.
package adaptive
