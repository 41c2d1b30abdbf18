#include "launcher/render/svg.h"

#include <fmt/core.h>

#include <cmath>

namespace trireme {
namespace {

// Colours of text and background follow the reader's scheme; light by default.
constexpr const char* kStyle = R"(<style>
svg { color-scheme: light dark; font-family: system-ui, "Segoe UI", "DejaVu Sans", Helvetica, Arial, sans-serif; font-size: 12px }
.ground { fill: #ffffff } .ink { fill: #1c2128 } .soft { fill: #59636e } .bubble { fill: #e6eaef }
.grid { stroke: #59636e; stroke-opacity: 0.25 } .title { font-size: 15px; font-weight: 600 }
.number { fill: #ffffff; font-size: 10.5px; text-anchor: middle } .middle { text-anchor: middle } .end { text-anchor: end }
@media (prefers-color-scheme: dark) {
.ground { fill: #14181d } .ink { fill: #e8ebef } .soft { fill: #a3acb8 } .bubble { fill: #2a3038 } .grid { stroke: #a3acb8 }
}
</style>
)";

}  // namespace

std::string svg_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '&'   ? "&amp;"
               : c == '<' ? "&lt;"
               : c == '>' ? "&gt;"
               : c == '"' ? "&quot;"
                          : std::string(1, c);
  }
  return escaped;
}

std::string svg_label(double x, double y, const char* classes, const std::string& text) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", classes, x, y,
                     svg_text(text));
}

std::string svg_grid_line(double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x1,
                     y1, x2, y2);
}

double tick_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (least <= factor * power * 1.0001) return factor * power;
  }
  return 10 * power;
}

std::string svg_document(double width, double height, const std::string& title, const std::string& body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\" aria-label=\"{2}\">\n<title>{2}</title>\n{3}<rect class=\"ground\" "
      "width=\"100%\" height=\"100%\"/>\n{4}</svg>\n",
      width, height, svg_text(title), kStyle, body);
}

}  // namespace trireme
