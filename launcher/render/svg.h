// Parts of SVG documents without scripts, readable in light and dark mode.
#pragma once

#include <string>

namespace trireme {

/// Text for an element or an attribute.
std::string svg_text(const std::string& text);

/// Plain text at a place. `classes`: of svg_document().
std::string svg_label(double x, double y, const char* classes, const std::string& text);

std::string svg_grid_line(double x1, double y1, double x2, double y2);

/// The smallest step of 1, 2 or 5 times a power of ten that is at least `least`, up to rounding.
double tick_step(double least);

/// A document of `width` by `height` pixels. `title` is plain text. `body` may use the classes ink, soft,
/// grid, bubble, title, number, middle and end.
std::string svg_document(double width, double height, const std::string& title, const std::string& body);

}  // namespace trireme
