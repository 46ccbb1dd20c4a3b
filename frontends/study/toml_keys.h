// Keys: reads a table of a TOML file key by key, and refuses with the line what is wrong, missing or not asked for.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/accepted.h"
#include "engine/base/error.h"
#include "frontends/study/study.h"

namespace gemel::study {

/// Options of a run, and the line of the file where each stands.
struct SpecTable {
  Json values = Json::object();
  std::map<std::string, int> lines;

  void set(const std::string& key, Json value, int line) {
    values[key] = std::move(value);
    lines[key] = line;
  }
  /// What the other has counts.
  void update(const SpecTable& other) {
    values.update(other.values);
    for (const auto& [key, line] : other.lines) lines[key] = line;
  }
};

inline int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

/// A table of the file, of which every key must be asked for.
class Keys {
 public:
  Keys(const std::filesystem::path& file, const toml::table& table, std::string where) : file_(file), table_(table), where_(std::move(where)) {}

  [[noreturn]] void refuse(const toml::node& node, const std::string& what) const {
    throw UsageError(fmt::format("study: {}:{}: {}", file_.string(), line_of(node), what));
  }
  const std::filesystem::path& file() const { return file_; }
  const toml::table& table() const { return table_; }
  const toml::node* find(const std::string& key) {
    if (std::ranges::count(known_, key) == 0) known_.push_back(key);
    return table_.get(key);
  }
  template <class T>
  T value(const std::string& key, T standard, const char* type) {
    const toml::node* node = find(key);
    if (!node) return standard;
    const auto v = node->value<T>();
    if (!v) refuse(*node, fmt::format("{} is no {}", key, type));
    return *v;
  }
  /// A number above 0. @param most  the largest that is accepted
  double positive(const std::string& key, double standard, double most) {
    const double v = value(key, standard, "number");
    if (!(v > 0 && v <= most)) refuse(*table_.get(key), fmt::format("{} is {}; accepted: a number above 0, at most {:g}", key, v, most));
    return v;
  }
  std::int64_t whole(const std::string& key, std::int64_t standard, std::int64_t least, std::int64_t most) {
    const std::int64_t v = value(key, standard, "whole number");
    if (v < least || v > most) refuse(*table_.get(key), fmt::format("{} is {}; accepted: a whole number of {} to {}", key, v, least, most));
    return v;
  }
  std::string text(const std::string& key, const std::string& standard = "") { return value<std::string>(key, standard, "text"); }
  std::string needed(const std::string& key) {
    const toml::node* node = find(key);
    if (!node) refuse_without(key);
    return text(key);
  }
  std::vector<std::string> texts(const std::string& key) {
    std::vector<std::string> out;
    const toml::node* node = find(key);
    if (!node) return out;
    if (!node->is_array()) refuse(*node, fmt::format("{} is no list of texts", key));
    for (const toml::node& one : *node->as_array()) {
      if (!one.is_string()) refuse(one, fmt::format("{} is no list of texts", key));
      out.push_back(*one.value<std::string>());
    }
    return out;
  }
  std::string one_of(const std::string& key, const std::string& standard, const std::vector<std::string>& accepted) {
    const toml::node* node = find(key);
    const std::string v = text(key, standard);
    if (std::ranges::find(accepted, v) != accepted.end()) return v;
    const std::string all = fmt::format("{}", fmt::join(accepted, ", "));
    if (!node) refuse(table_, fmt::format("{} has no {}; accepted: {}", where_, key, all));
    refuse(*node, fmt::format("{} is '{}'; accepted: {}", key, v, all));
  }
  /// A word that a file can be named by.
  std::string file_name(const std::string& key) {
    const std::string v = needed(key);
    if (v.empty() || v.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") != std::string::npos)
      refuse(*table_.get(key), fmt::format("{} is '{}'; accepted: small letters, digits, - and _", key, v));
    return v;
  }
  Json json(const std::string& key) {
    const toml::node* node = find(key);
    return node ? json_of(*node) : Json();
  }
  Json object(const std::string& key) {
    const toml::node* node = find(key);
    if (!node) return Json::object();
    if (!node->is_table()) refuse(*node, fmt::format("{} is no table", key));
    return json_of(*node);
  }
  SpecTable spec(const std::string& key) {
    const toml::node* node = find(key);
    if (node && !node->is_table()) refuse(*node, fmt::format("{} is no table", key));
    return node ? spec_of(*node->as_table()) : SpecTable();
  }
  SpecTable spec_of(const toml::table& table) const {
    SpecTable out;
    for (const auto& [key, value] : in_order_of_file(table)) out.set(key, json_of(*value), line_of(*value));
    return out;
  }
  /// TOML's tables are sorted by the library; the order of the file is that of the lines.
  static std::vector<std::pair<std::string, const toml::node*>> in_order_of_file(const toml::table& table) {
    std::vector<std::pair<std::string, const toml::node*>> out;
    for (const auto& [key, value] : table) out.emplace_back(std::string(key.str()), &value);
    std::ranges::sort(out, {}, [](const auto& e) { return std::pair(e.second->source().begin.line, e.second->source().begin.column); });
    return out;
  }
  /// @throws UsageError for a key that nobody has asked for
  void end() const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::ranges::count(known_, name)) continue;
      const std::string near = nearest(name, known_);
      refuse(node, fmt::format("{} has no '{}'{}; accepted: {}", where_, name, near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                               fmt::join(known_, ", ")));
    }
  }

  Json json_of(const toml::node& node) const {
    if (const auto* table = node.as_table()) {
      Json out = Json::object();
      for (const auto& [key, value] : in_order_of_file(*table)) out[key] = json_of(*value);
      return out;
    }
    if (const auto* array = node.as_array()) {
      Json out = Json::array();
      for (const toml::node& one : *array) out.push_back(json_of(one));
      return out;
    }
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* number = node.as_integer()) return number->get();
    if (const auto* number = node.as_floating_point()) return number->get();
    if (const auto* truth = node.as_boolean()) return truth->get();
    refuse(node, "dates and times are no values here");
  }

 private:
  /// Names a key that is near to the one that is missing.
  [[noreturn]] void refuse_without(const std::string& key) const {
    std::vector<std::string> given;
    for (const auto& [name, node] : table_)
      if (!std::ranges::count(known_, std::string(name.str()))) given.emplace_back(name.str());
    const std::string near = nearest(key, given);
    if (near.empty()) refuse(table_, fmt::format("{} has no {}", where_, key));
    refuse(*table_.get(near), fmt::format("{} has no {}, but '{}'", where_, key, near));
  }

  const std::filesystem::path& file_;
  const toml::table& table_;
  std::string where_;
  std::vector<std::string> known_;
};

/// Reads each table of [[name]].
template <class Read>
void each(Keys& keys, const std::string& name, Read read) {
  const toml::node* node = keys.find(name);
  if (!node) return;
  if (!node->is_array()) keys.refuse(*node, fmt::format("{} is no list of tables: [[{}]]", name, name));
  for (const toml::node& one : *node->as_array()) {
    if (!one.is_table()) keys.refuse(one, fmt::format("{} is no list of tables: [[{}]]", name, name));
    Keys its(keys.file(), *one.as_table(), fmt::format("[[{}]]", name));
    read(its);
    its.end();
  }
}

}  // namespace gemel::study
