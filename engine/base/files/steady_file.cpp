#include "engine/base/files/steady_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>

#include "engine/base/error.h"

namespace gemel {
namespace {

FileStamp stamp_in(const struct stat& s) {
  constexpr std::int64_t kSecond = 1'000'000'000;  // in nanoseconds
  return {s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec * kSecond + s.st_mtim.tv_nsec};
}

FileStamp stamp_of_open(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_on("read", "examine", path, errno);
  return stamp_in(status);
}

}  // namespace

FileStamp stamp_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail_on("read", "open", path, errno);
  return stamp_in(status);
}

void require_unchanged(const std::filesystem::path& path, const FileStamp& opened, const FileStamp& now) {
  if (now == opened) return;
  const bool is_another = now.device != opened.device || now.inode != opened.inode;
  const std::string how = is_another                  ? "another file is in its place"
                          : now.bytes != opened.bytes ? "it had " + std::to_string(opened.bytes) + " bytes, and has " + std::to_string(now.bytes)
                                                      : "it was written to";
  throw DataError("read: " + path.string() + " has changed since it was opened: " + how + "; accepted: data that stay as they are while they are in use");
}

SteadyFile::SteadyFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open_regular("read", path_, O_RDONLY)), opened_(stamp_of_open(file_, path_)) {}

void SteadyFile::read(std::int64_t offset, std::span<std::byte> out) const {
  const std::int64_t done = read_at(file_.get(), static_cast<std::uint64_t>(offset), out);
  if (done < 0) fail_on("read", "read", path_, errno);
  if (static_cast<std::size_t>(done) == out.size()) return;
  check_unchanged();
  throw DataError("read: " + path_.string() + " ends before its byte " + std::to_string(offset + done));
}

void SteadyFile::check_content_unchanged() const { require_unchanged(path_, opened_, stamp_of_open(file_, path_)); }

void SteadyFile::check_unchanged() const {
  check_content_unchanged();
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0) require_unchanged(path_, opened_, stamp_in(status));
}

}  // namespace gemel
