// Reads the records of COCO's annotation files one by one: such files have up to half a gigabyte, mostly
// polygons.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace trireme {

/// An element of a list of the file's root object.
struct CocoRecord {
  std::string section;     // the list's name: "images", "annotations", "categories"
  std::int64_t index = 0;  // in the list
  nlohmann::json fields;   // strings, numbers, booleans, nulls, and lists of numbers
};

/// Calls visit(record) for each object in a list of the root object, in order of the file. Members of records
/// that are named "segmentation", objects and nested lists are skipped. Throws Error(kInvalidInput) with the
/// path, the record and the position if the file cannot be read, is not JSON, has a record with a repeated
/// name, or has no object at its root; and the errors of visit().
void visit_coco_records(const std::filesystem::path& file,
                        const std::function<void(const CocoRecord&)>& visit);

}  // namespace trireme
