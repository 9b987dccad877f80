//! A proposal for a misspelt word.

/// The candidate that a misspelt word most likely means, if one is near.
///
/// Near is an edit distance of at most a third of the word's length, and at least one edit.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Source: derived; a name of the longest length has this many characters.
    const WORD_CHARS_MAX: usize = 128;
    let letters: Vec<char> = word.chars().take(WORD_CHARS_MAX + 1).collect();
    if letters.len() > WORD_CHARS_MAX {
        return None;
    }
    let allowed = (letters.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&letters, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements that lead from one word to the other.
fn distance(from: &[char], to: &str) -> usize {
    let mut row: Vec<usize> = (0..=from.len()).collect();
    for (index, letter) in to.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 0..from.len() {
            let replaced = diagonal + usize::from(from[column] != letter);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[from.len()]
}
