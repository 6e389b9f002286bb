package config

import "strings"

// Suggest returns the candidate that was probably meant by word, or "". It
// compares letters and digits only, in lower case, by edits (insert, delete,
// replace, swap neighbours; Damerau-Levenshtein, optimal string alignment):
// up to a third of the word's length, at least one. A word that begins exactly
// one candidate, or is begun by it, is taken for that one.
func Suggest(word string, candidates []string) string {
	w := squeeze(word)
	if w == "" {
		return ""
	}
	best, bestDist := "", max(1, len(w)/3)+1
	begins, count := "", 0
	for _, c := range candidates {
		s := squeeze(c)
		if d := distance(w, s); d < bestDist {
			best, bestDist = c, d
		}
		if len(w) >= 3 && (strings.HasPrefix(s, w) || len(s) >= 3 && strings.HasPrefix(w, s)) {
			begins, count = c, count+1
		}
	}
	if best == "" && count == 1 {
		return begins
	}
	return best
}

// didYouMean is the sentence for a fault, or fallback if nothing is near.
func didYouMean(word string, candidates []string, fallback string) string {
	if s := Suggest(word, candidates); s != "" {
		return `did you mean "` + s + `"?`
	}
	return fallback
}

func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(s))
}

// distance is the optimal string alignment distance of two ASCII words.
func distance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
