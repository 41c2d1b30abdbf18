#include "runtime/data/detection/coco_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/checkpoint/json_file.h"
#include "runtime/data/detection/coco_records.h"

namespace trireme {
namespace {

using nlohmann::json;

/// An annotation before its ids are resolved.
struct Annotation {
  std::int64_t image = 0, category = 0;
  LabelledBox object;
  std::optional<std::int64_t> id;
  std::int64_t index = 0;  // in the file
};

/// Reads the members of a record; errors name the file and the record.
class Members {
 public:
  Members(const std::string& file, const CocoRecord& record) : fields_(record.fields) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kNames = {
        {{"images", "image"}, {"annotations", "annotation"}, {"categories", "category"}}};
    for (const auto& [section, name] : kNames) {
      if (section != record.section) continue;
      const bool has_id = fields_.contains("id") && fields_["id"].is_number();
      where_ = fmt::format("{}: {} {}", file, name,
                           has_id ? "with id " + fields_["id"].dump() : fmt::format("{}", record.index));
    }
  }
  const std::string& where() const { return where_; }
  bool has(const char* key) const { return fields_.contains(key) && !fields_[key].is_null(); }

  std::int64_t integer(const char* key) const {
    check_has(key);
    try {
      return read_integer<std::int64_t>(fields_, key);
    } catch (const Error& error) {
      throw error.saying(fmt::format("{}: {}", where_, error.what()));
    }
  }
  bool flag(const char* key) const {
    if (fields_[key].is_boolean()) return fields_[key].get<bool>();
    const std::int64_t value = integer(key);
    TRIREME_CHECK(value == 0 || value == 1, "{}: its \"{}\" is {}, not 0 or 1", where_, key, value);
    return value == 1;
  }
  std::string text(const char* key) const {
    check_has(key);
    TRIREME_CHECK(fields_[key].is_string(), "{}: its \"{}\" is {:.100}, which is not a text", where_, key,
                  fields_[key].dump());
    return fields_[key].get<std::string>();
  }
  double number(const char* key) const { return number(key, fields_[key]); }
  ImageBox box(const char* key) const {
    check_has(key);
    const json& list = fields_[key];
    TRIREME_CHECK(list.is_array() && list.size() == 4,
                  "{}: its \"{}\" is {:.100}, not [x, y, width, height] in pixels", where_, key, list.dump());
    const ImageBox box{number(key, list[0]), number(key, list[1]), number(key, list[2]),
                       number(key, list[3])};
    TRIREME_CHECK(box.width >= 0 && box.height >= 0,
                  "{}: its \"{}\" is {}, with a negative side; write [x, y, width, height] with x, y of the "
                  "upper left corner",
                  where_, key, list.dump());
    return box;
  }

 private:
  void check_has(const char* key) const {
    TRIREME_CHECK(has(key), "{} has no \"{}\": add it, or remove the record", where_, key);
  }
  double number(const char* key, const json& value) const {
    TRIREME_CHECK(value.is_number() && std::isfinite(value.get<double>()),
                  "{}: its \"{}\" has {:.100}, which is not a finite number", where_, key, value.dump());
    return value.get<double>();
  }

  const json& fields_;
  std::string where_;
};

class CocoFile {
 public:
  explicit CocoFile(std::string file) : file_(std::move(file)) {}

  void add(const CocoRecord& record) {
    const Members members(file_, record);
    if (record.section == "images") add_image(members);
    if (record.section == "categories") add_category(members);
    if (record.section == "annotations") add_annotation(members);
  }

  LabelledPictures resolve() {
    TRIREME_CHECK(!images_.empty(), "{} has no pictures: its \"images\" is missing or empty", file_);
    TRIREME_CHECK(!categories_.empty(), "{} has no classes: its \"categories\" is missing or empty", file_);
    LabelledPictures all;
    std::map<std::int64_t, std::int32_t> labels;
    for (const auto& [id, name] : categories_) {
      labels.emplace(id, static_cast<std::int32_t>(labels.size()));
      all.category_ids.push_back(id);
      all.class_names.push_back(name);
    }
    std::unordered_map<std::int64_t, std::size_t> positions;
    for (auto& [id, picture] : images_) {
      positions.emplace(id, all.pictures.size());
      all.pictures.push_back(std::move(picture));
    }
    for (Annotation& annotation : annotations_) {
      const auto picture = positions.find(annotation.image);
      TRIREME_CHECK(
          picture != positions.end(),
          "{}: its image_id {} is not an id in \"images\": add the picture, or remove the annotation",
          describe(annotation), annotation.image);
      const auto label = labels.find(annotation.category);
      TRIREME_CHECK(
          label != labels.end(),
          "{}: its category_id {} is not an id in \"categories\": add the class, or remove the annotation",
          describe(annotation), annotation.category);
      annotation.object.label = label->second;
      all.pictures[picture->second].boxes.push_back(annotation.object);
    }
    return all;
  }

 private:
  std::string describe(const Annotation& annotation) const {
    return annotation.id ? fmt::format("{}: annotation with id {}", file_, *annotation.id)
                         : fmt::format("{}: annotation {}", file_, annotation.index);
  }
  void add_image(const Members& members) {
    LabelledPicture picture;
    picture.id = members.integer("id");
    picture.file = members.text("file_name");
    if (members.has("width") || members.has("height")) {
      const std::int64_t width = members.integer("width"), height = members.integer("height");
      constexpr std::int64_t kMaxSide = 1 << 30;
      TRIREME_CHECK(std::min(width, height) > 0 && std::max(width, height) < kMaxSide,
                    "{}: it has {} x {} pixels, which is no size of a picture", members.where(), width,
                    height);
      picture.size = {static_cast<int>(width), static_cast<int>(height)};
    }
    const std::int64_t id = picture.id;
    TRIREME_CHECK(images_.emplace(id, std::move(picture)).second,
                  "{}: another picture has the same id: number the pictures anew", members.where());
  }
  void add_category(const Members& members) {
    TRIREME_CHECK(categories_.emplace(members.integer("id"), members.text("name")).second,
                  "{}: another class has the same id: number the classes anew", members.where());
    TRIREME_CHECK(names_.insert(members.text("name")).second,
                  "{}: another class has the same name \"{}\": rename one of them", members.where(),
                  members.text("name"));
  }
  void add_annotation(const Members& members) {
    Annotation annotation;
    annotation.image = members.integer("image_id");
    annotation.category = members.integer("category_id");
    annotation.index = std::ssize(annotations_);
    annotation.object.box = members.box("bbox");
    annotation.object.area = annotation.object.box.width * annotation.object.box.height;
    if (members.has("area")) annotation.object.area = members.number("area");
    annotation.object.is_crowd = members.has("iscrowd") && members.flag("iscrowd");
    if (members.has("id")) {
      annotation.id = members.integer("id");
      TRIREME_CHECK(annotation_ids_.insert(*annotation.id).second,
                    "{}: another annotation has the same id: number the annotations anew", members.where());
    }
    annotations_.push_back(annotation);
  }

  const std::string file_;
  std::map<std::int64_t, LabelledPicture> images_;
  std::map<std::int64_t, std::string> categories_;
  std::set<std::string> names_;
  std::vector<Annotation> annotations_;
  std::unordered_set<std::int64_t> annotation_ids_;
};

}  // namespace

LabelledPictures read_coco_file(const std::filesystem::path& file) {
  CocoFile coco(file.string());
  visit_coco_records(file, [&coco](const CocoRecord& record) { coco.add(record); });
  return coco.resolve();
}

}  // namespace trireme
