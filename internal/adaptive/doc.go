// Package adaptive splits a scan by what its pages tell about the rows to come.
// [Strategy] decides as a [scan.Strategy]; it is pure, and its whole memory
// travels in the steps.
//
// # The idea
//
// A scan that reads page after page makes the fewest queries and takes the
// longest. To go faster it must be cut into pieces, but every piece costs: it
// ends with a page that is half full on average, and one that was cut where no
// rows are costs a whole query. So pieces should have many pages each, and that
// takes knowing how many rows there are, and where.
//
// Nobody knows, but every page is evidence. A thousand keys from "k1" to "k3"
// suggest some three thousand up to "k9". A strand, which is what we call one
// run of steps through a piece, therefore carries a [belief]: a guess at the
// pages left up to its end, and how sure it is. After each page
//
//   - the strand learns which characters keys branch into ([alphabet]), since
//     "3" is half-way to the end among hexadecimal digits in one table and no
//     way at all in another;
//   - it extrapolates the density of the rows just read up to its end ([gauge]),
//     once by this page, near, and once by all pages of the strand, far;
//   - it weighs both against what it believed. That it is still going is
//     evidence too: the belief never falls below the pages read since the last
//     cut;
//   - it cuts what is left into as many pieces as are worth a dozen pages, up to
//     four, or reads on if that is one. A strand that has gone on for long is
//     cut against its belief.
//
// If near and far agree, the cuts are even. If they don't, the keys come in
// clusters, such as the counters of some devices: the page says that billions
// of pages follow, the strand's whole way says a few. Then one cut or two are
// made nearby, where the cluster may end, and others far off, in the clusters to
// come. Either kind alone would take a hop for every cluster, or for every digit
// of a counter.
//
// A partition that goes on for pages is a strand of its own, cut by row keys.
// What follows the partition becomes another step.
//
// # Cutting a strand that has a token
//
// The first piece goes on from the page, and the service ties a continuation
// token to the query that returned it. So that step repeats the query as it
// was, token and filter, and stops by itself: its state names the key where the
// next piece starts, rows from there on are not yielded, and it ends with the
// page in which they turn up. No row is read twice but those of this last page,
// and no use is made of tokens that isn't documented. It relies on the order
// of keys being the service's own (package key), and so does any cut. The
// alternatives cost more: a new query from the last key on must read a cut
// partition again, or get a step of its own for the rest of it; sending the
// token with a narrower filter would save a page, but no document allows it.
//
// # Hints
//
// Tables that are scanned were scanned before. [Hints] are keys eight pages
// apart that an earlier scan came by. The first steps hand them out, up to four
// groups a step, and each step reads the piece between two of them. The pieces
// cover everything whatever the table looks like now; all of the above applies
// to them, with more caution. Hints that are out of date cost balance only.
//
// # What it does not do
//
// It doesn't adapt to the number of workers, nor to how fast a service answers.
// It can't foresee a partition with more rows than any before it, or letters
// that sort behind all it has seen; it finds them a few pages later than it
// would have liked.
package adaptive
