#include "launcher/render/box_drawing.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace trireme {
namespace {

using Colour = std::array<std::uint8_t, 3>;

constexpr Colour kColours[] = {{230, 57, 70},  {42, 157, 143}, {38, 97, 156},  {244, 162, 97},
                               {131, 56, 236}, {106, 153, 23}, {214, 40, 140}, {0, 150, 199}};
constexpr Colour kText = {255, 255, 255};
constexpr int kGlyphWidth = 3, kGlyphHeight = 5;

/// A digit of `rows` holds the three pixels of a row, the left one in its highest bit.
struct Glyph {
  char character;
  std::string_view rows;
};
constexpr Glyph kGlyphs[] = {{' ', "00000"}, {'A', "25755"}, {'B', "65656"}, {'C', "34443"}, {'D', "65556"},
                             {'E', "74647"}, {'F', "74644"}, {'G', "34553"}, {'H', "55755"}, {'I', "72227"},
                             {'J', "11152"}, {'K', "55655"}, {'L', "44447"}, {'M', "57755"}, {'N', "75555"},
                             {'O', "25552"}, {'P', "65644"}, {'Q', "25563"}, {'R', "65655"}, {'S', "34216"},
                             {'T', "72222"}, {'U', "55557"}, {'V', "55552"}, {'W', "55775"}, {'X', "55255"},
                             {'Y', "55222"}, {'Z', "71247"}, {'0', "75557"}, {'1', "26227"}, {'2', "71747"},
                             {'3', "71717"}, {'4', "55711"}, {'5', "74717"}, {'6', "74757"}, {'7', "71122"},
                             {'8', "75757"}, {'9', "75717"}, {'.', "00002"}, {'-', "00700"}, {'_', "00007"},
                             {':', "02020"}, {'/', "11244"}, {'(', "24442"}, {')', "21112"}, {'?', "71202"}};

std::string_view glyph_of(char character) {
  if (character >= 'a' && character <= 'z') character = static_cast<char>(character - 'a' + 'A');
  const auto* const found = std::ranges::find(kGlyphs, character, &Glyph::character);
  return found == std::end(kGlyphs) ? kGlyphs[std::size(kGlyphs) - 1].rows : found->rows;
}

/// The part of a rectangle within the image.
void fill(Image& image, int left, int top, int width, int height, const Colour& colour) {
  const int right = std::min(left + width, image.size.width),
            bottom = std::min(top + height, image.size.height);
  for (int y = std::max(top, 0); y < bottom; ++y) {
    for (int x = std::max(left, 0); x < right; ++x) {
      const auto at = static_cast<std::size_t>((std::int64_t{y} * image.size.width + x) * 3);
      std::ranges::copy(colour, image.pixels.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

void draw_text(Image& image, int left, int top, std::string_view text, int pixel) {
  for (const char character : text) {
    const std::string_view rows = glyph_of(character);
    for (int y = 0; y < kGlyphHeight; ++y) {
      for (int x = 0; x < kGlyphWidth; ++x) {
        if ((rows[static_cast<std::size_t>(y)] - '0') & (4 >> x))
          fill(image, left + x * pixel, top + y * pixel, pixel, pixel, kText);
      }
    }
    left += (kGlyphWidth + 1) * pixel;
  }
}

}  // namespace

void draw_box(Image& image, const ImageBox& box, std::string_view label, std::int32_t colour) {
  const Colour& edge = kColours[static_cast<std::size_t>(std::max(colour, 0)) % std::size(kColours)];
  const int line = std::max(1, std::max(image.size.width, image.size.height) / 400);
  const int left = static_cast<int>(std::lround(box.x)), top = static_cast<int>(std::lround(box.y));
  const int right = static_cast<int>(std::lround(box.x + box.width)),
            bottom = static_cast<int>(std::lround(box.y + box.height));
  fill(image, left, top, right - left, line, edge);
  fill(image, left, bottom - line, right - left, line, edge);
  fill(image, left, top, line, bottom - top, edge);
  fill(image, right - line, top, line, bottom - top, edge);
  if (label.empty()) return;
  const int pixel = line, bar = (kGlyphHeight + 2) * pixel;
  const int bar_top = top >= bar ? top - bar : top;  // within the box if there is no room above it
  fill(image, left, bar_top, (static_cast<int>(label.size()) * (kGlyphWidth + 1) + 1) * pixel, bar, edge);
  draw_text(image, left + pixel, bar_top + pixel, label, pixel);
}

}  // namespace trireme
