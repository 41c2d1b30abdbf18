#include "runtime/data/detection/box_text_folder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/log.h"
#include "runtime/base/mapped_file.h"
#include "runtime/base/regular_file.h"
#include "runtime/data/image_decode.h"
#include "runtime/data/picture_listing.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxTextBytes = std::size_t{16} << 20;
constexpr const char* kClassesFile = "classes.txt";

/// Lines without their ends, and without the byte order mark of some editors.
std::vector<std::string> lines_of(const fs::path& path, const char* what) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF", kBlanks = "\r \t";
  std::string whole = read_text_file({.path = path, .what = what, .max_bytes = kMaxTextBytes});
  if (whole.starts_with(kByteOrderMark)) whole.erase(0, kByteOrderMark.size());
  std::istringstream text(whole);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    while (!line.empty() && kBlanks.find(line.back()) != kBlanks.npos) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

template <class Number>
bool read_number(const std::string& word, Number& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size();
}

/// The object of a line. `where` names file and line.
LabelledBox read_line(const std::string& line, ImageSize size, std::size_t num_classes,
                      const std::string& where) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  LabelledBox object;
  std::array<double, 4> box{};
  bool is_read = words.size() == 5 && read_number(words[0], object.label);
  for (std::size_t i = 0; is_read && i < box.size(); ++i) is_read = read_number(words[i + 1], box[i]);
  TRIREME_CHECK(is_read,
                "{} is \"{:.100}\", not \"class cx cy width height\": write a whole number and four "
                "fractions with blanks between them, or remove the line",
                where, line);
  TRIREME_CHECK(object.label >= 0 && static_cast<std::size_t>(object.label) < num_classes,
                "{} has the class {}, {} has the classes 0 to {}: add the name there, or correct the line",
                where, object.label, kClassesFile, num_classes - 1);
  constexpr double kRounding = 1e-3;  // of programs that write few digits
  TRIREME_CHECK(box[2] >= 0 && box[3] >= 0, "{} has a box of a negative side, {} x {}: correct or remove it",
                where, box[2], box[3]);
  TRIREME_CHECK(std::ranges::all_of(box, [](double x) { return x >= -kRounding && x <= 1 + kRounding; }),
                "{} has the box {}, {}, {}, {}, but boxes are fractions of the picture, from 0 to 1", where,
                box[0], box[1], box[2], box[3]);
  const double width = box[2] * size.width, height = box[3] * size.height;
  object.box = {box[0] * size.width - width / 2, box[1] * size.height - height / 2, width, height};
  object.area = width * height;
  return object;
}

ImageSize size_of(const fs::path& path, std::int64_t max_pixels) {
  const MappedFile mapped(path, "picture");
  return read_image_size({.bytes = mapped.bytes(), .name = path.string(), .max_pixels = max_pixels});
}

/// Throws if a text below `texts` belongs to no picture.
void check_texts_have_pictures(const fs::path& texts, const fs::path& pictures,
                               const std::set<std::string>& known) {
  std::error_code error;
  fs::recursive_directory_iterator entry(texts, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    const fs::path name = entry->path().lexically_relative(texts);
    if (name.extension() != ".txt" || name == kClassesFile || known.contains(name.string())) continue;
    throw Error(ErrorCode::kInvalidInput,
                "{} has no picture below {}: add it (*.jpg, *.jpeg, *.png), or remove the text",
                entry->path().string(), pictures.string());
  }
  TRIREME_CHECK(!error, "cannot list folder {}: {}", texts.string(), error.message());
}

}  // namespace

std::vector<std::string> read_box_text_classes(const fs::path& folder) {
  const fs::path path = folder / kClassesFile;
  TRIREME_CHECK(fs::exists(path), "{} is missing: write the names of the classes there, one per line",
                path.string());
  std::vector<std::string> names = lines_of(path, "list of classes");
  while (!names.empty() && names.back().empty()) names.pop_back();
  TRIREME_CHECK(!names.empty(), "{} has no classes: write their names there, one per line", path.string());
  std::set<std::string> seen;
  for (const std::string& name : names) {
    TRIREME_CHECK(!name.empty() && seen.insert(name).second,
                  "{} has the class \"{}\" twice, or an empty line: name each class once", path.string(),
                  name);
  }
  return names;
}

LabelledPictures read_box_text_folder(const fs::path& folder, std::int64_t max_pixels) {
  TRIREME_CHECK(fs::is_directory(folder), "{} is not a folder of pictures with texts", folder.string());
  const bool has_rooms = fs::is_directory(folder / "images") && fs::is_directory(folder / "labels");
  const fs::path pictures = has_rooms ? folder / "images" : folder;
  const fs::path texts = has_rooms ? folder / "labels" : folder;
  LabelledPictures all;
  all.class_names = read_box_text_classes(folder);
  for (std::size_t i = 0; i < all.class_names.size(); ++i)
    all.category_ids.push_back(static_cast<std::int64_t>(i));
  const PictureListing listing = list_pictures(pictures, FolderBounds(folder));
  TRIREME_CHECK(!listing.pictures.empty(), "{} has no pictures (*.jpg, *.jpeg, *.png)", pictures.string());
  std::set<std::string> known;
  std::int64_t num_without = 0;
  std::string first_without;
  for (const std::string& name : listing.pictures) {
    LabelledPicture picture;
    picture.id = std::ssize(all.pictures);
    picture.file = (has_rooms ? fs::path("images") / name : fs::path(name)).string();
    picture.size = size_of(pictures / name, max_pixels);
    const fs::path text = fs::path(name).replace_extension(".txt");
    TRIREME_CHECK(known.insert(text.string()).second,
                  "two pictures have the text {}: rename one of the pictures", (texts / text).string());
    if (fs::exists(texts / text)) {
      check_is_within({.folder = folder,
                       .name = (texts / text).lexically_relative(folder).string(),
                       .what = "text of boxes"});
      std::int64_t number = 0;
      for (const std::string& line : lines_of(texts / text, "text of boxes")) {
        ++number;
        if (line.empty()) continue;
        const std::string where = fmt::format("{}: line {}", (texts / text).string(), number);
        picture.boxes.push_back(read_line(line, picture.size, all.class_names.size(), where));
      }
    } else if (num_without++ == 0) {
      first_without = (pictures / name).string();
    }
    all.pictures.push_back(std::move(picture));
  }
  check_texts_have_pictures(texts, pictures, known);
  TRIREME_CHECK(num_without < std::ssize(all.pictures),
                "no picture below {} has a text with its boxes below {}: write x.txt for x.jpg",
                pictures.string(), texts.string());
  if (num_without > 0) {
    log_warning(fmt::format("{} picture(s) have no text below {} and count as empty; the first is {}",
                            num_without, texts.string(), first_without));
  }
  return all;
}

}  // namespace trireme
