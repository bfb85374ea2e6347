# Bash completion of `ole`: the program itself knows what fits at the cursor (cli/completion.c).
# shellcheck shell=bash
_ole() {
    local words=() word line i
    for ((i = 1; i <= COMP_CWORD; i++)); do # bash cuts words at ':' and '=': join them again
        word=${COMP_WORDS[i]}
        if ((i > 1)) && [[ $word == [:=]* || ${COMP_WORDS[i - 1]} == *[:=] ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    local current=${words[-1]}
    local cut=${current%"${current##*[:=]}"} # the part of the word that bash does not replace
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :files*) compopt -o default ;;
        :folders*) compopt -o dirnames ;;
        *)
            word=${line%%$'\t'*}
            [[ $word != *: ]] || compopt -o nospace
            COMPREPLY+=("${word#"$cut"}")
            ;;
        esac
    done < <("$1" __complete "${words[@]}" 2>/dev/null)
}
complete -F _ole ole
