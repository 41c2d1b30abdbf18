#include "runtime/data/detection/picture_layout.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace trireme {
namespace {

double right(const ImageBox& box) {
  return box.x + box.width;
}
double bottom(const ImageBox& box) {
  return box.y + box.height;
}

/// The common part; its sides are negative or 0 if there is none.
ImageBox intersect(const ImageBox& a, const ImageBox& b) {
  const double x = std::max(a.x, b.x), y = std::max(a.y, b.y);
  return {x, y, std::min(right(a), right(b)) - x, std::min(bottom(a), bottom(b)) - y};
}

/// `box` under the map that takes `from` to `to`.
ImageBox mapped(const ImageBox& box, const ImageBox& from, const ImageBox& to) {
  const double scale_x = to.width / from.width, scale_y = to.height / from.height;
  return {to.x + (box.x - from.x) * scale_x, to.y + (box.y - from.y) * scale_y, box.width * scale_x,
          box.height * scale_y};
}

ImageBox whole(ImageSize size) {
  return {0, 0, static_cast<double>(size.width), static_cast<double>(size.height)};
}

/// The part of a picture that stands at `place` and is seen within `window`: the whole pixels that the
/// picture covers. None if there is no such pixel.
std::optional<PicturePart> cut(int member, ImageSize size, const ImageBox& place, const ImageBox& window) {
  const ImageBox seen = intersect(place, window);
  constexpr double kRounding = 1e-6;  // a side of whole pixels stays whole
  const int x = static_cast<int>(std::ceil(seen.x - kRounding));
  const int y = static_cast<int>(std::ceil(seen.y - kRounding));
  const int width = static_cast<int>(std::floor(right(seen) + kRounding)) - x;
  const int height = static_cast<int>(std::floor(bottom(seen) + kRounding)) - y;
  if (width < 1 || height < 1) return std::nullopt;
  const ImageBox pixels{static_cast<double>(x), static_cast<double>(y), static_cast<double>(width),
                        static_cast<double>(height)};
  return PicturePart{.member = member,
                     .from = intersect(mapped(pixels, place, whole(size)), whole(size)),
                     .x = x,
                     .y = y,
                     .width = width,
                     .height = height};
}

/// Width and height of a letterboxed picture, before rounding.
std::pair<double, double> fitted(ImageSize size, int side) {
  const double scale =
      std::min(static_cast<double>(side) / size.width, static_cast<double>(side) / size.height);
  return {size.width * scale, size.height * scale};
}

ImageBox window_of(int side) {
  return {0, 0, static_cast<double>(side), static_cast<double>(side)};
}

void add_if_seen(const std::optional<PicturePart>& part, std::vector<PicturePart>& parts) {
  if (part) parts.push_back(*part);
}

/// A member that is not in `taken`; any member if all are.
int draw_partner(int num_members, const std::vector<int>& taken, ImageRandom& random) {
  std::vector<int> free;
  for (int member = 0; member < num_members; ++member) {
    if (std::ranges::find(taken, member) == taken.end()) free.push_back(member);
  }
  if (free.empty()) return random.below(num_members);
  return free[static_cast<std::size_t>(random.below(static_cast<int>(free.size())))];
}

/// Four pictures about a point of a canvas of twice the side, which is then scaled and shifted as a whole.
std::vector<PicturePart> draw_mosaic_parts(const LayoutOptions& options, std::span<const ImageSize> sizes,
                                           int own, int side, ImageRandom& random) {
  const double meet_x = random.uniform(-0.5, 0.5) * side, meet_y = random.uniform(-0.5, 0.5) * side;
  const double scale = random.uniform(options.scale[0], options.scale[1]);
  const double middle_x = side * (0.5 + random.uniform(-options.shift, options.shift));
  const double middle_y = side * (0.5 + random.uniform(-options.shift, options.shift));
  const double x = middle_x + scale * meet_x, y = middle_y + scale * meet_y;
  const ImageBox canvas{middle_x - scale * side, middle_y - scale * side, 2 * scale * side, 2 * scale * side};
  const ImageBox window = intersect(canvas, window_of(side));
  std::vector<PicturePart> parts;
  std::vector<int> members;
  for (int quarter = 0; quarter < 4; ++quarter) {
    const int member = quarter == 0 ? own : draw_partner(static_cast<int>(sizes.size()), members, random);
    members.push_back(member);
    const ImageSize size = sizes[static_cast<std::size_t>(member)];
    const auto [width, height] = fitted(size, side);
    const bool is_right = quarter % 2 == 1, is_low = quarter >= 2;
    const ImageBox place{is_right ? x : x - scale * width, is_low ? y : y - scale * height, scale * width,
                         scale * height};
    add_if_seen(cut(member, size, place, window), parts);
  }
  return parts;
}

std::vector<PicturePart> draw_single(const LayoutOptions& options, ImageSize size, int own, int side,
                                     ImageRandom& random) {
  const double scale = random.uniform(options.scale[0], options.scale[1]);
  const double shift_x = side * random.uniform(-options.shift, options.shift);
  const double shift_y = side * random.uniform(-options.shift, options.shift);
  std::vector<PicturePart> parts;
  if (scale == 1 && shift_x == 0 && shift_y == 0) {
    parts.push_back(letterbox(size, side));
    parts.back().member = own;
    return parts;
  }
  const auto [width, height] = fitted(size, side);
  const double center_x = width / 2 + shift_x, center_y = height / 2 + shift_y;
  const ImageBox place{center_x - scale * width / 2, center_y - scale * height / 2, scale * width,
                       scale * height};
  add_if_seen(cut(own, size, place, window_of(side)), parts);
  return parts;
}

/// A picture at a random position: inside of the sample if it is smaller, covering the sample if it is
/// larger.
std::vector<PicturePart> draw_mixed(const LayoutOptions& options, std::span<const ImageSize> sizes, int own,
                                    int side, ImageRandom& random) {
  const int member = draw_partner(static_cast<int>(sizes.size()), {own}, random);
  const ImageSize size = sizes[static_cast<std::size_t>(member)];
  const double scale = random.uniform(options.mixup_scale[0], options.mixup_scale[1]);
  const auto [fitted_width, fitted_height] = fitted(size, side);
  const double width = scale * fitted_width, height = scale * fitted_height;
  const double x = (side - width) * random.uniform(), y = (side - height) * random.uniform();
  std::vector<PicturePart> parts;
  add_if_seen(cut(member, size, {x, y, width, height}, window_of(side)), parts);
  if (!parts.empty() && random.uniform() < options.flip_probability) {
    parts[0].mirror = Mirror::kYes;
    parts[0].x = side - parts[0].x - parts[0].width;
  }
  return parts;
}

}  // namespace

ImageBox PicturePart::to_sample(const ImageBox& box) const {
  const ImageBox to{static_cast<double>(x), static_cast<double>(y), static_cast<double>(width),
                    static_cast<double>(height)};
  ImageBox moved = mapped(box, from, to);
  if (mirror == Mirror::kYes) moved.x = 2.0 * x + width - right(moved);
  return moved;
}

ImageBox PicturePart::to_picture(const ImageBox& box) const {
  const ImageBox to{static_cast<double>(x), static_cast<double>(y), static_cast<double>(width),
                    static_cast<double>(height)};
  ImageBox moved = box;
  if (mirror == Mirror::kYes) moved.x = 2.0 * x + width - right(box);
  return mapped(moved, to, from);
}

PicturePart letterbox(ImageSize size, int side) {
  const auto [width, height] = fitted(size, side);
  const auto pixels = [side](double length) {
    return std::clamp(static_cast<int>(std::floor(length + 1e-6)), 1, side);
  };
  return {.from = whole(size), .width = pixels(width), .height = pixels(height)};
}

double LayoutOptions::max_scale() const {
  return mixup_probability > 0 ? std::max(scale[1], mixup_scale[1]) : scale[1];
}

PictureLayout draw_layout(const LayoutOptions& options, std::span<const ImageSize> sizes, int own, int side,
                          ImageRandom& random) {
  PictureLayout layout;
  const bool is_mosaic = random.uniform() < options.mosaic_probability;
  layout.layers.push_back(
      is_mosaic ? draw_mosaic_parts(options, sizes, own, side, random)
                : draw_single(options, sizes[static_cast<std::size_t>(own)], own, side, random));
  if (random.uniform() < options.mixup_probability)
    layout.layers.push_back(draw_mixed(options, sizes, own, side, random));
  if (random.uniform() < options.flip_probability) {
    for (PicturePart& part : layout.layers[0]) {
      part.x = side - part.x - part.width;
      part.mirror = Mirror::kYes;
    }
  }
  return layout;
}

void add_visible_boxes(const PicturePart& part, ImageSize size, std::span<const LabelledBox> objects,
                       const KeepOptions& keep, std::vector<SampleBox>& boxes) {
  for (const LabelledBox& object : objects) {
    const ImageBox inside = intersect(object.box, whole(size));
    if (object.is_crowd || inside.width <= 0 || inside.height <= 0) continue;
    const ImageBox seen = intersect(inside, part.from);
    if (seen.width <= 0 || seen.height <= 0) continue;
    const ImageBox box = part.to_sample(seen);
    const bool is_large = box.width >= keep.min_side && box.height >= keep.min_side;
    const double visible = seen.width * seen.height / (inside.width * inside.height);
    if (is_large && visible >= keep.min_visible) boxes.push_back({.box = box, .label = object.label});
  }
}

}  // namespace trireme
