// Formats tables and paragraphs for a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// All rows have the same number of cells; the first row is the header.
using TextRows = std::vector<std::vector<std::string>>;

/// One line per row, indented by two spaces. The first `num_left` columns are left-aligned, the others
/// right-aligned, except the last `num_text`. Columns from `num_kept` on are omitted if all their cells below
/// the header are "-". Beyond `most_rows`, the middle rows are replaced by their number.
struct TableShape {
  std::size_t num_left = 1, num_kept = 1;
  std::size_t most_rows = 16;  // without the header
  std::size_t num_text = 0;
};
std::string to_text(TextRows rows, const TableShape& shape);

/// Wraps `text` at `width` characters if possible. Lines after the first are indented by two spaces. Ends
/// with a newline.
std::string wrapped(const std::string& text, std::size_t width = 100);

/// Three significant digits: "12.8 MiB", "64 B"; "-" for 0.
std::string short_bytes(std::int64_t bytes);

/// "123", "12.3", "1.23": three significant digits, except of values below 1.
std::string three_digits(double value);

/// "1 rank", "2 ranks".
std::string plural(std::int64_t count, std::string_view what);

/// "25.6 M"; exact below 10,000.
std::string short_count(std::int64_t count);

}  // namespace trireme
