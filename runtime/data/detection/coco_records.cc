#include "runtime/data/detection/coco_records.h"

#include <string_view>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/mapped_file.h"

namespace trireme {
namespace {

using nlohmann::json;

/// Levels of the file: { "section": [ {record} ] } with lists of numbers in records.
constexpr int kRoot = 1, kSection = 2, kRecord = 3, kList = 4;

class CocoParser final : public nlohmann::json_sax<json> {
 public:
  CocoParser(std::string file, const std::function<void(const CocoRecord&)>& visit)
      : file_(std::move(file)), visit_(visit) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(value); }
  bool binary(binary_t&) override { return true; }

  bool start_object(std::size_t) override {
    ++depth_;
    if (depth_ == kRecord && is_list_) record_.fields = json::object();
    return true;
  }
  bool end_object() override {
    if (depth_ == kRecord && is_list_) {
      visit_(record_);
      ++record_.index;
      record_.fields = {};
    }
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    TRIREME_CHECK(depth_ != kRoot, "{} is a list, not COCO's object with \"images\" and \"annotations\"",
                  file_);
    if (depth_ == kSection) {
      is_list_ = true;
      record_.index = 0;
    }
    if (depth_ == kList && is_read_) record_.fields[key_] = json::array();
    return true;
  }
  bool end_array() override {
    if (depth_ == kSection) is_list_ = false;
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == kRoot) record_.section = name;
    if (depth_ != kRecord || !is_list_) return true;
    is_read_ = name != "segmentation";
    TRIREME_CHECK(!record_.fields.contains(name), "{} has the name \"{:.100}\" twice: remove one", where(),
                  name);
    key_ = name;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    throw Error(ErrorCode::kInvalidInput, "{} is damaged, or has numbers such as NaN: {:.200}", where(),
                error.what());
  }

 private:
  template <class Value>
  bool add(const Value& value) {
    TRIREME_CHECK(depth_ > 0, "{} is one value, not COCO's object with \"images\" and \"annotations\"",
                  file_);
    if (!is_list_ || !is_read_) return true;
    if (depth_ == kRecord) record_.fields[key_] = value;
    if (depth_ == kList && record_.fields[key_].is_array()) record_.fields[key_].push_back(value);
    return true;
  }

  /// The file, and the record if the parser is in one.
  std::string where() const {
    if (!is_list_) return file_;
    const bool has_id = record_.fields.is_object() && record_.fields.contains("id");
    return fmt::format("{}: \"{}\"[{}]{}", file_, record_.section, record_.index,
                       has_id ? fmt::format(" (id {:.30})", record_.fields["id"].dump()) : "");
  }

  const std::string file_;
  const std::function<void(const CocoRecord&)>& visit_;
  CocoRecord record_;
  std::string key_;
  int depth_ = 0;
  bool is_list_ = false;  // within a list of the root object
  bool is_read_ = true;   // the member of the record
};

}  // namespace

void visit_coco_records(const std::filesystem::path& file,
                        const std::function<void(const CocoRecord&)>& visit) {
  const MappedFile mapped(file, "annotation file");
  const std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
  CocoParser parser(file.string(), visit);
  json::sax_parse(text, &parser);
}

}  // namespace trireme
