# The recipes of `ole reproduce` are compiled into the program: recipes/*.yaml as strings of a header, the paper's table
# first, then the figures.

set(ole_recipes
    svhn-densenet40 mnist-densenet40 cifar10+-densenet40 cifar10+-resnet110 cifar10+-vgg19
    cifar10+-vgg11 cifar10-vgg16 cifar10-vgg16-release cifar10+-vgg19-release cifar10+-vgg11-release
    cifar100+-preresnet110 cifar100+-vgg19
    cifar100-vgg19 facescrub500-vggface stl10-cnn5 stl10+-cnn5
    fig1 fig2-cifar10 fig2-faces fig3 fig3-vgg16 fig4 fig5
    fig6 fig6-faces fig6-facescrub12 fig6-lfw fig6-cifar10 fig7)

function(ole_recipes_finish header)
    set(recipe_texts "")
    foreach(name IN LISTS ole_recipes)
        set(file ${PROJECT_SOURCE_DIR}/recipes/${name}.yaml)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
        ole_read_as_string(${file} text)
        string(APPEND recipe_texts "    {\"${name}\",\n     \"${text}\"},\n")
    endforeach()
    configure_file(${PROJECT_SOURCE_DIR}/cli/reproduce/recipe_texts.h.in ${header} @ONLY)
endfunction()
