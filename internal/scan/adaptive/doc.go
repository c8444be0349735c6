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
// suggest some three thousand up to "k9". Keys are more than numbers, though:
// paths, URLs and dotted names share long prefixes, and their subtrees differ in
// size a thousandfold. A strand, which is what we call one run of steps through a
// piece, therefore carries a [trail]: level by level, how many siblings it has
// met beside the last key's path, and in which part of the level. After each page
//
//   - the strand learns which characters keys branch into ([alphabet]), since
//     "3" is half-way to the end among hexadecimal digits in one table and no
//     way at all in another;
//   - it learns how often keys fork at all behind a separator, a digit or another
//     character ([forks]), since the letters of a fixed name have no siblings;
//   - it climbs from the last key up and measures what lies ahead ([gauge]).
//     Where it has met siblings, their density goes on. Where it has not, it is
//     blind, and goes by the forks;
//   - it cuts what is left into up to four pieces of equal measure, if there is
//     plenty, or into two if it has gone on for long or has credit to spare; else
//     it reads on.
//
// Measures are poor: the truth is often a hundred times more. So pieces are
// small, and what limits the cuts is credit rather than the measure. Every page
// earns a cut, a cut costs one, and pieces share what is left. Where there are
// rows, there is credit.
//
// A blind cut may leave its right piece empty, and nobody tells the left one. So a
// strand that has cut blindly believes less in what it has never met, and so do
// its pieces, until one meets something.
//
// A partition that fills a page is a strand of its own, cut by row keys. What
// follows it is cut at the same time, by what the strand knows of partitions.
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
// Tables that are scanned were scanned before. [Hints] are keys six pages
// apart at most that an earlier scan came by. The first steps hand them out, up to four
// groups a step, and each step reads the piece between two of them. The pieces
// cover everything whatever the table looks like now; all of the above applies
// to them, with more caution. Hints that are out of date cost balance only.
//
// # What it does not do
//
// It doesn't adapt to the number of workers, nor to how fast a service answers.
// It can't foresee a subtree with more rows than any before it, or letters that
// sort behind all it has seen; it finds them a few pages later than it would have
// liked.
package adaptive
