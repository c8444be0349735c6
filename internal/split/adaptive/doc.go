// Package adaptive splits a scan by what its pages tell about the rows to come. It has one model of how dense keys
// are, and two drivers. [Strategy] decides as a [scan.Strategy]: its whole memory travels in the steps. [Workers] share memory.
// Both are pure: they make no queries.
//
// # The idea
//
// A scan that reads page after page makes the fewest queries and takes the longest. To go faster it
// is cut into pieces, but every piece costs: its last page is half full on average, and a piece without
// rows costs a whole query. To cut pieces of many pages, a scan must know how many rows there are, and
// where.
//
// Nobody knows, but every page is evidence. A thousand keys from "k1" to "k3" suggest some three
// thousand up to "k9". But keys are more than numbers: paths, URLs and dotted names share long prefixes,
// and their subtrees differ in size a thousandfold. A strand, the steps that read one piece one after
// the other, carries a [trail]: level by level, how many siblings it has met beside the last key's path,
// and in which share of the level. After each page
//
//   - the strand learns which characters keys branch into ([alphabet]): "3" may
//     be one of ten digits, or the only digit that occurs;
//   - it learns how often keys fork behind a separator, a digit or another
//     character ([forks]): the letters of a fixed name have no siblings;
//   - it climbs from the last key up and measures what lies ahead ([gauge]).
//     Where it has met siblings, their density goes on. Where it has met none, it is
//     blind, and goes by the forks;
//   - it cuts what is left into up to twelve pieces, one more for each page and a half that it believes
//     ahead, as far as it has credit. Near pieces are smaller: what is near is known best.
//
// Measures are poor: the truth is often a hundred times more. So pieces are small, and credit limits
// the cuts: a scan starts with credit for sixty, every page earns one, a cut costs one, and pieces share
// the rest. Each piece may make one at least, and up to five if it is believed to be long and nothing was cut blindly.
// Where there are rows, there is credit. The first page is cut
// into twelve whatever it tells: where a table starts says little of the rest.
//
// Where keys have left ASCII, half of the letters where the last key and the end part are supposed to be ones that
// nobody has met, at even distances: a script may have thousands.
//
// A blind cut may leave its right piece empty, and nobody tells the left one. So a strand that has
// cut blindly, and its pieces, believe less in what they have never met, until they meet something.
//
// A partition that fills two pages becomes a strand of its own, cut by row keys, at the same time as the
// rest behind it. Shorter ones are read on end: their rests would be queries for little.
//
// The transcripts in testdata show small tables being cut, query by query: keys with a long
// common prefix, a heavy subtree, a giant partition, and a scan with hints.
//
// # Cutting a strand that has a token
//
// The first piece goes on from the page, and the service ties a continuation token to the query
// that returned it. So that step repeats the query as it was, token and filter. Its state names the key
// where the next piece starts: it yields no rows from there on, and ends with the page that has such
// rows. Only rows of this last page are read twice. A new query from the last key on would read a cut
// partition again, or need a step for the rest of it. To send the token with a narrower filter would
// save a page, but no document allows it.
//
// # Hints
//
// Tables that are scanned were scanned before. [scan.Hints] are keys six pages apart at most that an
// earlier scan came by. The first steps hand them out, and each step reads the piece between two of
// them. The pieces cover everything whatever the table looks like now; all of the above applies to them,
// with more caution. A scan keeps its own copy of its hints, since steps refer to them by number.
//
// # Several queries an invocation
//
// An invocation that may make several queries reads where it has cut at once, beside its own next
// page. Then a cut with no rows behind it costs a query and no message. A page with rows is work
// done, and its step goes on from there, in the same way.
//
// # In one process
//
// Workers that share memory send no messages. Each reads a [Piece], page by page. A worker without one becomes a
// thief: it takes what lies ahead in another piece, its victim. A wrong cut costs a query, and nobody waits for it, so no credit is
// needed. Letters and forks are learned from all pages together, and each piece has its own trail.
//
// Each piece gets one thief before any gets two, as long as it is worth a quarter of a page; the largest get more. A thief that finds
// nothing tells its victim: that is worth less to others then, and believes less in what it has never met. A piece that goes on and on
// without being robbed of anything is worth at least what it has read.
//
// A piece's end moves to the cut at once. Rows beyond it belong to the thief, even if the victim's page under way holds
// them, so every row has one owner at any moment. A thief that finds nothing has proved its part empty.
//
// # Decided once
//
// Children depend on the page, and a page read again may differ. So the step's commit stores
// them. A repeated delivery finds the step committed, and decides nothing.
//
// # What it does not do
//
// The strategy does not adapt to the number of workers, nor to how fast a service answers.
// It cannot foresee a subtree with more rows than any before it, or letters that
// sort behind all that it has seen. It finds them after a few pages.
// Small tables and partitions of two to three pages cost up to twice the queries of a serial scan.
package adaptive
