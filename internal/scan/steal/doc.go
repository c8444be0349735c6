// Package steal splits a scan among workers that share memory. It decides where
// an idle worker cuts in; whoever runs the workers makes the queries.
//
// Each worker reads a [Strand], a range of keys, page by page. A worker without a
// strand becomes a thief: it takes what lies far ahead in another strand, its victim. A wrong cut
// costs one query and nobody waits for it, so idle workers always try something.
// Steps that travel as messages (package adaptive) cannot afford that.
//
// Three things decide where to cut:
//
//   - How many rows are left. The density of the strand's last page, at the
//     position where the page's first and last key differ, tells how many rows
//     share that prefix. Each shorter prefix has more, by a factor that all pages
//     have taught the shared [Model]: a separator multiplies rows, the middle of a
//     directory's name hardly does. Positions behind which thieves found nothing count less.
//   - Where they are. The model knows which characters follow which kind of
//     character, and maps keys to numbers by that. It knows only those that it has met, so a tenth of
//     many thieves go by even steps of all characters: a script may have thousands of letters.
//   - Who is robbed. Each strand gets one thief before any gets two. The longest
//     strands get the rest. Strands whose thieves found nothing get fewer thieves, and these
//     try the prefixes one by one, whatever is believed to be there.
//
// A strand's end moves to the cut at once. Rows beyond it belong to the thief,
// even if the strand's page under way holds them, so every row has one owner at
// any moment. A thief that finds nothing has proved its piece empty.
//
// The package is pure: it makes no queries. A Model is not safe for concurrent use.
package steal
