package index

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// jsonNumber matches a JSON number (RFC 8259, section 6).
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// Number returns the text that represents a number in keys. All spellings of a number have the same text: 3.10 and 31e-1 become
// 3.1, and 7.0 becomes 7. Whole numbers within 64 bits are written in full. Any other number becomes the shortest text that
// denotes the same Double, such as 1e+21 or 1.5e-7. JavaScript and RFC 8785 write numbers in the same form. If the text is not a
// number, or lies beyond the range of a Double, ok is false.
func Number(text string) (canonical string, ok bool) {
	if !jsonNumber.MatchString(text) {
		return "", false
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.FormatInt(n, 10), true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "", false
	}
	if f == math.Trunc(f) && -1<<63 <= f && f < 1<<63 {
		return strconv.FormatInt(int64(f), 10), true
	}
	if size := math.Abs(f); size >= 1e-6 && size < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64), true
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	return mantissa + "e" + exponent[:1] + strings.TrimLeft(exponent[1:], "0"), true
}

// The sort value of a number has three parts: the sign, the position of the decimal point relative to the first digit, and the
// digits. Each part has a fixed length, so sorting the values as text sorts the numbers. The sort value of a negative
// number is the [complement] of these parts.
const (
	positive      = "6" // the sign of a positive number; a negative number has the complement, 3
	numberDigits  = 19  // an Int64 has at most 19 digits
	doubleDigits  = 17  // 17 digits distinguish any two Doubles
	exponentShift = 500 // is added to a Double's position (-323 to 309), so that the position has three digits
)

func sortNumber(text string) (string, error) {
	canonical, ok := Number(text)
	if !ok {
		return "", fmt.Errorf("%q is not a number such as 12 or -3.5", text)
	}
	digits, point := significant(canonical)
	if given, _ := significant(text); len(given) > doubleDigits && given != digits {
		return "", errors.New("has more digits than a Double can store; round the number")
	}
	if digits == "" {
		return positive + strings.Repeat("0", 3+numberDigits), nil
	}
	sort := positive + strconv.Itoa(point+exponentShift) + digits + strings.Repeat("0", numberDigits-len(digits))
	if canonical[0] == '-' {
		return complement(sort), nil
	}
	return sort, nil
}

// significant returns a number's digits without zeros at either end, and the position of the decimal point. Position 0 is
// directly before the first digit.
func significant(number string) (digits string, point int) {
	number = strings.TrimPrefix(number, "-")
	if e := strings.IndexAny(number, "eE"); e >= 0 {
		point, _ = strconv.Atoi(number[e+1:])
		number = number[:e]
	}
	whole, fraction, _ := strings.Cut(number, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	point += len(whole) - (len(whole+fraction) - len(digits))
	return strings.TrimRight(digits, "0"), point
}

// complement replaces each digit d, including the sign, with 9-d. Therefore complements sort in the opposite order.
func complement(digits string) string {
	b := []byte(digits)
	for i := range b {
		b[i] = '0' + '9' - b[i]
	}
	return string(b)
}
