// Package adaptive splits a scan according to the keys on the pages that were read. From these keys, it estimates how densely the unread keys lie.
// Two types use the estimate: [Strategy] implements [scan.Strategy] and stores in the steps everything that it has learned. [Workers] divide a scan
// among the goroutines of one process, which share memory. Neither makes queries.
//
// # The idea
//
// A scan that reads page after page makes the fewest queries and takes the longest. To make a scan faster, the strategy cuts the scan into pieces.
// But every piece has a cost: its last page is half full on average, and a piece without rows costs a whole query. To cut pieces that have many
// pages, a scan must know where the rows are, and how many rows there are.
//
// The storage does not report where the rows are, but every page is evidence. A thousand keys from "k1" to "k3" suggest about three thousand keys
// from "k3" to "k9". But keys are not only numbers: paths, URLs and dotted names share long prefixes, and the number of keys below two such
// prefixes may differ by a factor of 1,000. A strand is the sequence of steps that read one piece. Keys form a tree, in which keys with the same
// first characters branch at the next character. At depth n, the siblings of the last key read are the keys that share its first n characters, but
// not its next character. For each depth, a strand's [trail] records how many siblings were read, and what fraction of the possible next characters
// these siblings cover. After each page,
//
//   - the strand learns which characters occur where keys branch ([alphabet]): "3" may be one of ten digits, or the only digit
//     that occurs;
//   - it learns how often keys branch after a separator, a digit or another character ([forks]), because the letters of a fixed
//     name have no siblings;
//   - it estimates how many keys follow the last key ([gauge]), first in the last key's deepest level, and at the end in the top level. If siblings
//     were read in a level, the strand assumes that the rest of the level is as dense. A level without known siblings is called blind. The estimate
//     for a blind level depends on the forks;
//   - the strand cuts its unread keys into at most twelve pieces. It makes one cut for each 1.5 expected pages, as long as it has credit. The
//     pieces near the last key are smaller, because the estimate is best for near keys.
//
// Estimates are poor: there are often a hundred times more rows than expected. Therefore pieces are small. Credit limits the number of cuts: a scan
// starts with credit for sixty cuts, and every page adds credit for one more cut. When a strand is cut, its remaining credit is divided among the
// pieces. Every piece gets credit for at least one cut, so a piece with many rows can always be cut. This minimum is higher for pieces
// in which many pages are expected: up to five cuts. But after a cut in a blind level, pieces may be empty, so their minimum stays at one cut.
// After the first page, the rest is always cut into twelve pieces, because the start of a table reveals little about the rest.
//
// Some scripts have thousands of letters, and the pages may have shown only a few of them. So a strand compares the last key read with the
// end of the unread keys. If one of the two has a character beyond ASCII at the first position at which they differ, the strand assumes that the unread
// keys contain further letters at this position. Together, these unknown letters weigh half as much as all known letters.
//
// A cut in a blind level may make an empty piece, and the other pieces never learn that this piece is empty. So after such a cut, a strand and its
// pieces expect fewer keys in blind levels until they find keys there.
//
// If a partition fills two pages, the rest of the partition becomes a separate piece. This piece is cut by row keys, while one or more other steps
// read the later partitions. Shorter partitions are not cut, because cuts would cost queries for few rows.
//
// The transcripts in testdata show, query by query, how scans of small tables are cut. The examples are keys with a long common prefix, a heavy
// subtree, a giant partition, and a scan with hints.
//
// # Cutting a strand that has a token
//
// If a strand is cut after a page that has a token, the first piece continues after this page. A token belongs to the query that returned the token.
// So the first piece's step sends this query again, with the same filter and the page's token. The step's state contains the key at which the next
// piece starts. The step yields no row at or after that key, and ends with the first page that contains such a row. Only rows of this last page are
// read twice. Without the token, there would be two ways to continue: a new query that reads the page's last partition again, or a separate step for
// the rest of this partition. Using the token with a narrower filter would save a page, but no document of the service allows this.
//
// # Hints
//
// Most tables have been scanned before. [scan.Hints] are keys that an earlier scan read, at most six pages apart. They divide the range into pieces.
// The first step reads the first piece, and divides the other pieces into groups. It starts a step for each group, and this step treats its group in
// the same way. The pieces cover the whole range, even if the table has changed since the earlier scan. They are cut like other pieces, but more
// cautiously. A scan keeps its own copy of its hints, because steps refer to hints by number.
//
// # Several queries per invocation
//
// If an invocation may make several queries, it reads not only its own next page, but also the first page of each piece that it has cut. So an empty
// piece costs a query but no message. If a piece's first page has rows, the invocation processes these rows, and the step for the rest of the piece
// begins after them.
//
// # In one process
//
// Workers that share memory send no messages. Each worker reads a [Piece], page by page. A worker without a piece takes a part of the unread keys of
// another piece. The new piece is called the thief, and the other piece is called its victim. A wrong cut costs one query and delays no other work,
// so workers need no credit for cuts. Workers learn characters ([alphabet]) and branches ([forks]) from the pages of all pieces, but each piece has its
// own [trail].
//
// A piece gets a thief only if at least a quarter of a page is expected in the piece. Each such piece gets one thief before any piece gets a second
// thief. A larger piece gets more thieves. If a thief finds no rows, its victim gets fewer new thieves, and the estimate for the victim's blind levels
// falls. If n pages of a piece have been read since a thief last found rows there, the piece is expected to have at least n further pages.
//
// The victim's end moves to the cut immediately. The victim may be reading a page with rows beyond its new end. The thief processes
// these rows, and the victim does not. So every row belongs to exactly one piece at any moment. If a thief finds no rows, its piece is empty.
//
// # Decided once
//
// The child steps depend on the page, and a second reading may return a different page. Therefore the step's commit stores the children. An
// invocation that gets the same message again makes no new decision.
//
// # What it does not do
//
// The strategy does not adapt to the number of workers or to the speed of the service. It cannot foresee a prefix with more rows than any earlier prefix,
// or letters that sort after all earlier letters, but it adapts to both after a few pages. For a small table, or a partition of two to three pages, the
// strategy makes up to twice as many queries as a serial scan.
package adaptive
