# cmake -DNVCC= -DKERNELS= -DOUT= -DARCHITECTURES=75,80 -P: compiles the kernels to OUT/kernels.fatbin and describes it in
# OUT/manifest.json. The source hash is that of a line "name sha256" a file, by name, as src/cuda/embedded_sources.cpp has it.
string(REPLACE "," ";" architectures "${ARCHITECTURES}")
set(flags -std=c++17 --fmad=false -O3 -Werror all-warnings)
set(targets -gencode arch=compute_75,code=compute_75)
set(names "\"compute_75\"")
foreach(architecture IN LISTS architectures)
  list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
  string(APPEND names ", \"sm_${architecture}\"")
endforeach()
file(MAKE_DIRECTORY ${OUT})
execute_process(COMMAND ${NVCC} ${flags} ${targets} -fatbin -o ${OUT}/kernels.fatbin ${KERNELS}/kernels.cu
                COMMAND_ERROR_IS_FATAL ANY)

file(GLOB sources RELATIVE ${KERNELS} ${KERNELS}/*.cu ${KERNELS}/*.h)
list(SORT sources)
set(lines "")
foreach(source IN LISTS sources)
  file(SHA256 ${KERNELS}/${source} hash)
  string(APPEND lines "${source} ${hash}\n")
endforeach()
string(SHA256 source_hash "${lines}")
file(SHA256 ${OUT}/kernels.fatbin image_hash)
set(image "\"file\": \"kernels.fatbin\", \"sha256\": \"${image_hash}\", \"targets\": [${names}]")
string(REPLACE ";" " " flag_text "${flags}")
file(WRITE ${OUT}/manifest.json "{
 \"source_sha256\": \"${source_hash}\",
 \"flags\": \"${flag_text}\",
 \"images\": [
  {\"kernel\": \"v1\", ${image}},
  {\"kernel\": \"h1\", ${image}}
 ]
}
")
