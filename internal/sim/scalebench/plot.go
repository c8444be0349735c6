package scalebench

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// The plot's sizes in pixels.
const (
	plotWidth, plotHeight = 720, 360
	marginLeft, marginTop = 70, 40
	marginRight           = 60
	marginBottom          = 45
)

// WritePlot draws rows a second and instances over time as SVG.
func WritePlot(w io.Writer, r Result) error {
	var rates, counts []point
	for i := 1; i < len(r.Samples); i++ {
		a, b := r.Samples[i-1], r.Samples[i]
		if b.Seconds > a.Seconds && a.Seconds <= r.Took {
			rates = append(rates, point{b.Seconds, float64(b.Rows-a.Rows) / (b.Seconds - a.Seconds)})
			counts = append(counts, point{b.Seconds, float64(b.Instances)})
		}
	}
	limit := float64(r.Options.read()) / r.Limit
	top := limit
	for _, p := range rates {
		top = max(top, p.y)
	}
	most := 1.0
	for _, p := range counts {
		most = max(most, p.y)
	}
	p := plot{right: max(r.Took, 1), top: round(top), top2: round(most)}
	p.frame(r)
	p.line(counts, p.top2, "#c60", "")
	p.line(rates, p.top, "#06c", "")
	p.line([]point{{0, limit}, {p.right, limit}}, p.top, "#888", "6 4")
	fmt.Fprintf(&p.b, "</svg>\n")
	_, err := io.WriteString(w, p.b.String())
	return err
}

type point struct{ x, y float64 }

// plot is a drawing in the making. Its x axis ends at right; its y axes end at top, on the left,
// and top2.
type plot struct {
	b                strings.Builder
	right, top, top2 float64
}

func (p *plot) frame(r Result) {
	fmt.Fprintf(&p.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&p.b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, plotHeight)
	p.text(marginLeft, 20, "start", "#000", fmt.Sprintf("%s of %s rows, %d a partition, plan %s", capital(r.Options.Action), thousands(r.Options.Rows), r.Options.PerPartition, r.Options.Plan))
	const marks = 4
	for i := range marks + 1 {
		share := float64(i) / marks
		y := p.y(share, 1)
		fmt.Fprintf(&p.b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", marginLeft, plotWidth-marginRight, y, y)
		p.text(marginLeft-6, y+4, "end", "#06c", thousands(int64(share*p.top)))
		p.text(plotWidth-marginRight+6, y+4, "start", "#c60", fmt.Sprintf("%.4g", share*p.top2))
		x := p.x(share * p.right)
		p.text(x, plotHeight-marginBottom+18, "middle", "#000", duration(share*p.right))
	}
	p.text(marginLeft, plotHeight-8, "start", "#06c", "rows a second")
	p.text(plotWidth/2, plotHeight-8, "middle", "#888", "dashed: what the account's limit allows")
	p.text(plotWidth-marginRight, plotHeight-8, "end", "#c60", "instances")
}

func (p *plot) text(x, y float64, anchor, color, s string) {
	fmt.Fprintf(&p.b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, color, s)
}

func (p *plot) line(points []point, top float64, color, dashes string) {
	var b strings.Builder
	for _, q := range points {
		fmt.Fprintf(&b, "%.1f,%.1f ", p.x(min(q.x, p.right)), p.y(q.y, top))
	}
	if dashes != "" {
		dashes = ` stroke-dasharray="` + dashes + `"`
	}
	fmt.Fprintf(&p.b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"%s/>`+"\n", strings.TrimSpace(b.String()), color, dashes)
}

func (p *plot) x(seconds float64) float64 {
	return marginLeft + seconds/p.right*(plotWidth-marginLeft-marginRight)
}

func (p *plot) y(value, top float64) float64 {
	return plotHeight - marginBottom - value/top*(plotHeight-marginTop-marginBottom)
}

// round returns the next number above n that has one of a few first digits.
func round(n float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(n)))
	for _, m := range []float64{1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8} {
		if m*unit >= n {
			return m * unit
		}
	}
	return 10 * unit
}
