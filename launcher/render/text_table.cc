#include "launcher/render/text_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "runtime/base/terminal_text.h"

namespace trireme {
namespace {

void drop_empty_columns(TextRows& rows, std::size_t num_kept) {
  for (std::size_t c = rows[0].size(); c-- > num_kept;) {
    const bool empty =
        std::all_of(rows.begin() + 1, rows.end(), [c](const auto& row) { return row[c] == "-"; });
    if (!empty) continue;
    for (auto& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
  }
}

std::vector<std::size_t> widths_of(const TextRows& rows) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  return widths;
}

std::string line_of(const std::vector<std::string>& row, const std::vector<std::size_t>& widths,
                    std::size_t num_left) {
  std::string line;
  for (std::size_t c = 0; c < row.size(); ++c) {
    line += c < num_left ? fmt::format("  {:<{}}", row[c], widths[c])
                         : fmt::format("  {:>{}}", row[c], widths[c]);
  }
  return line.erase(line.find_last_not_of(' ') + 1) + "\n";
}

std::string three_digits(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.{}f}", value, value >= 10 ? 1 : 2);
}

}  // namespace

std::string to_text(TextRows rows, const TableShape& shape) {
  for (auto& row : rows) {
    for (std::string& cell : row) cell = terminal_line(cell);  // a name with a newline begins no row
  }
  drop_empty_columns(rows, shape.num_kept);
  const std::vector<std::size_t> widths = widths_of(rows);
  const std::size_t num_rows = rows.size() - 1;
  const std::size_t num_left_out = num_rows > shape.most_rows ? num_rows - shape.most_rows + 1 : 0;
  const std::size_t first_left_out = 1 + shape.most_rows / 2;
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (num_left_out > 0 && r == first_left_out) {
      text += fmt::format("  ... {} more ...\n", num_left_out);
      r += num_left_out;
    }
    text += line_of(rows[r], widths, shape.num_left);
  }
  return text;
}

std::string wrapped(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::string all, line;
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      all += line + "\n";
      line = " ";
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return all + line + "\n";
}

std::string short_bytes(std::int64_t bytes) {
  if (bytes == 0) return "-";
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; value >= 1000 && unit < 3; ++unit) value /= 1024;
  return three_digits(value) + " " + units[unit];
}

std::string short_count(std::int64_t count) {
  if (count < 10'000) return fmt::format("{}", count);
  double value = static_cast<double>(count) / 1000;
  const char* const units[] = {"K", "M", "B", "T"};
  int unit = 0;
  for (; value >= 999.5 && unit < 3; ++unit) value /= 1000;
  return three_digits(value) + " " + units[unit];
}

}  // namespace trireme
