// Reads NumPy's .npz archives (zip files of .npy arrays) with libzip. Every failure is a std::runtime_error
// that names the file, the array and the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mmaemu::testing {

// One array in C order. dtype is NumPy's: "<u4", "|u1", "<f8".
struct NpzArray {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  // Number of elements: 1 for an array without dimensions.
  std::int64_t size() const;

  // The elements as T, which must have the size and, for arithmetic types, the kind of dtype.
  template <class T>
  std::span<const T> as() const {
    static_assert(std::is_arithmetic_v<T>);
    constexpr char kKind = std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u';
    require(kKind, sizeof(T));
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

 private:
  void require(char kind, std::size_t item_size) const;
};

class Npz {
 public:
  static Npz open(const std::filesystem::path& path);

  // Names without the ".npy" that the archive adds, in archive order.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(std::string_view name) const;

  // The array called `name`, read on first use. The reference holds as long as this object.
  const NpzArray& array(std::string_view name);

 private:
  struct Archive;
  explicit Npz(std::filesystem::path path, std::shared_ptr<Archive> archive);

  std::filesystem::path path_;
  std::shared_ptr<Archive> archive_;
  std::vector<std::string> names_;
  std::map<std::string, NpzArray, std::less<>> arrays_;
};

}  // namespace mmaemu::testing
