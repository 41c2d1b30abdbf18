#include "launcher/render/timeline_svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "launcher/render/svg.h"

namespace trireme {
namespace {

// Pixels.
constexpr double kLeft = 72, kRight = 24, kTop = 64;
constexpr double kBar = 26, kLane = 6, kGap = 8;  // per row: boxes, communication lane, gap
constexpr double kMinPlot = 640, kMaxPlot = 3600;
constexpr double kBoxWidth = 18;  // target width of a typical box
constexpr double kDigit = 6.2;    // width of a digit in a box

struct Rgb {
  int r, g, b;
};

// Distinct for colour-blind readers; white text is readable on every shade.
Rgb colour_of(TimeSpent spent) {
  switch (spent) {
    case TimeSpent::kForward:
      return {0x2f, 0x6f, 0xc0};
    case TimeSpent::kRecompute:
      return {0x7d, 0x62, 0xb8};
    case TimeSpent::kBackward:
      return {0xc2, 0x5a, 0x1e};
    case TimeSpent::kBackwardWeight:
      return {0x1f, 0x86, 0x6a};
    case TimeSpent::kExchange:
      return {0x8a, 0x8f, 0x98};
    case TimeSpent::kUpdate:
      return {0x5c, 0x63, 0x6e};
  }
  return {0, 0, 0};
}

// Later chunks of a rank are darker.
std::string fill_of(TimeSpent spent, int chunk) {
  const Rgb c = colour_of(spent);
  const double shade = std::max(0.4, 1.0 - 0.22 * chunk);
  const auto part = [&](int value) { return static_cast<int>(std::lround(value * shade)); };
  return fmt::format("#{:02x}{:02x}{:02x}", part(c.r), part(c.g), part(c.b));
}

class Picture {
 public:
  explicit Picture(const Timeline& timeline)
      : timeline_(timeline), start_(timeline.start_ms()), duration_(timeline.duration_ms()) {
    double compute_ms = 0.0;
    int num_boxes = 0;
    for (const TimelineSpan& span : timeline.spans) {
      shown_.insert(span.spent);
      has_chunks_ = has_chunks_ || span.chunk > 0;
      if (span.spent == TimeSpent::kExchange) continue;
      compute_ms += span.end_ms - span.start_ms;
      ++num_boxes;
    }
    row_ = kBar + (shown_.contains(TimeSpent::kExchange) ? kLane + 2 : 0) + kGap;
    const double typical_ms = num_boxes > 0 ? compute_ms / num_boxes : 0.0;
    plot_ = typical_ms > 0.0 ? std::clamp(kBoxWidth * duration_ / typical_ms, kMinPlot, kMaxPlot) : kMinPlot;
  }

  std::string draw(const std::string& title, const std::string& note) {
    const double width = kLeft + plot_ + kRight, bottom = kTop + row_ * timeline_.num_ranks;
    text(kLeft, 26, "ink title", title);
    text(kLeft, 46, "soft", note);
    for (int rank = 0; rank < timeline_.num_ranks; ++rank) {
      text(kLeft - 10, y_of(rank) + kBar / 2 + 4, "ink end", fmt::format("rank {}", rank));
      svg_ += fmt::format(
          "<rect class=\"bubble\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\"/>\n", kLeft,
          y_of(rank), plot_, kBar);
    }
    for (const TimelineSpan& span : timeline_.spans) box(span);
    axis(bottom);
    const double height = legend(bottom + 58) + 24;
    return svg_document(width, height, title, svg_);
  }

 private:
  double x_of(double ms) const { return duration_ > 0.0 ? kLeft + (ms - start_) / duration_ * plot_ : kLeft; }
  double y_of(int rank) const { return kTop + row_ * rank; }

  void text(double x, double y, const char* classes, const std::string& content) {
    svg_ += svg_label(x, y, classes, content);
  }

  void box(const TimelineSpan& span) {
    const bool lane = span.spent == TimeSpent::kExchange;
    const double x = x_of(span.start_ms), y = y_of(span.rank) + (lane ? kBar + 2 : 0);
    const double width = x_of(span.end_ms) - x,
                 seam = width > 3 ? 0.8 : 0;  // keeps neighbours visually separate
    svg_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" rx=\"{}\" fill=\"{}\"><title>{}, "
        "{:.2f} to {:.2f} ms</title></rect>\n",
        x, y, std::max(width - seam, 0.4), lane ? kLane : kBar, seam > 0 ? "1.5" : "0",
        fill_of(span.spent, lane ? 0 : span.chunk), svg_text(span.label), span.start_ms - start_,
        span.end_ms - start_);
    const std::string number = span.micro_batch >= 0 ? std::to_string(span.micro_batch) : "";
    if (lane || number.empty() || width < kDigit * static_cast<double>(number.size()) + 3) return;
    text(x + (width - seam) / 2, y + kBar / 2 + 4, "number", number);
  }

  void axis(double y) {
    if (duration_ <= 0.0) return;
    const double step = tick_step(duration_ / (plot_ / 90));
    const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step))), 0, 6);
    for (int i = 0; i * step <= duration_ * 1.0001; ++i) {
      const double x = x_of(start_ + i * step);
      svg_ += svg_grid_line(x, kTop - 4, x, y + 2);
      text(x, y + 18, "soft middle", fmt::format("{:.{}f}{}", i * step, decimals, i == 0 ? " ms" : ""));
    }
  }

  // Returns the y coordinate of its last line.
  double legend(double y) {
    double x = kLeft;
    const auto entry = [&](const std::string& swatch, const std::string& label) {
      const double width = 44 + 6.8 * static_cast<double>(label.size());
      if (x > kLeft && x + width > kLeft + plot_) x = kLeft, y += 24;
      if (!swatch.empty()) {
        svg_ += fmt::format("<rect {} x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"14\" rx=\"2\"/>\n",
                            swatch, x, y - 11);
      }
      text(swatch.empty() ? x : x + 20, y, swatch.empty() ? "soft" : "ink", label);
      x += width;
    };
    for (const TimeSpent spent : shown_)
      entry(fmt::format("fill=\"{}\"", fill_of(spent, 0)), std::string(name(spent)));
    entry("class=\"bubble\"",
          fmt::format("bubble: {:.1f} % of {} x {:.{}f} ms", 100 * timeline_.bubble_share(),
                      timeline_.num_ranks, duration_, duration_ < 100 ? 2 : 0));
    if (has_chunks_) entry("", "darker: later chunks of the rank");
    return y;
  }

  const Timeline& timeline_;
  const double start_, duration_;
  double row_ = 0.0, plot_ = 0.0;
  std::set<TimeSpent> shown_;  // kinds that occur
  bool has_chunks_ = false;
  std::string svg_;
};

}  // namespace

std::string to_svg(const Timeline& timeline, const std::string& title, const std::string& note) {
  return Picture(timeline).draw(title, note);
}

}  // namespace trireme
