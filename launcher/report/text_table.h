// Tables and paragraphs for a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

/// Rows of equally many cells; the first row is the header.
using TextRows = std::vector<std::vector<std::string>>;

/// A line a row, indented by two spaces: the first `num_left` columns begin at one place, the others end at
/// one. Columns from `num_kept` on whose cells below the header are all "-" are left out. Of more than
/// `most_rows` rows the ones in the middle are left out, and their number stands in their place.
struct TableShape {
  std::size_t num_left = 1, num_kept = 1;
  std::size_t most_rows = 16;  // without the header
};
std::string to_text(TextRows rows, const TableShape& shape);

/// The words of `text` on lines of at most `width` characters where they can be broken, the second and later
/// ones indented by two spaces; with a newline at the end.
std::string wrapped(const std::string& text, std::size_t width = 100);

/// Three digits: "12.8 MiB", "64 B"; "-" for none.
std::string short_bytes(std::int64_t bytes);

/// "25.6 M"; below 10,000 exact.
std::string short_count(std::int64_t count);

}  // namespace trireme
