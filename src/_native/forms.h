/* English synonyms that no stemmer maps to one stem: irregular forms, abbreviations of chats, British spellings.
 * Included by text.c alone.
 *
 * {form, base}: the form is read as its base, which is then stemmed.  Lower case, at most 16 bytes, no stop words,
 * and a base is no form of something else.  Left out are forms that are more often another word: rose, lay, bore,
 * ground, bit, leaves, lives.  Worth half a point of recall@5 and .01 of MRR on labelled conversations.
 * A change here changes the index: raise SHP_TEXT_VERSION. */
#ifndef SHP_FORMS_H
#define SHP_FORMS_H

static const char *const SHP_FORMS_ENGLISH[][2] = {
    /* verbs */
    {"arose", "arise"}, {"ate", "eat"}, {"eaten", "eat"}, {"beaten", "beat"}, {"became", "become"}, {"began", "begin"},
    {"begun", "begin"}, {"bent", "bend"}, {"blew", "blow"}, {"blown", "blow"}, {"broke", "break"}, {"broken", "break"},
    {"brought", "bring"}, {"built", "build"}, {"burnt", "burn"}, {"bought", "buy"}, {"came", "come"},
    {"caught", "catch"}, {"chose", "choose"}, {"chosen", "choose"}, {"dealt", "deal"}, {"drank", "drink"},
    {"drunk", "drink"}, {"drawn", "draw"}, {"dreamt", "dream"}, {"drew", "draw"}, {"driven", "drive"},
    {"drove", "drive"}, {"dug", "dig"}, {"fallen", "fall"}, {"fell", "fall"}, {"fed", "feed"}, {"felt", "feel"},
    {"fought", "fight"}, {"found", "find"}, {"flew", "fly"}, {"flown", "fly"}, {"forgave", "forgive"},
    {"forgiven", "forgive"}, {"forgot", "forget"}, {"forgotten", "forget"}, {"froze", "freeze"}, {"frozen", "freeze"},
    {"gave", "give"}, {"given", "give"}, {"goes", "go"}, {"gone", "go"}, {"went", "go"}, {"got", "get"}, {"gotten", "get"},
    {"grew", "grow"}, {"grown", "grow"}, {"heard", "hear"}, {"held", "hold"}, {"hid", "hide"}, {"hidden", "hide"},
    {"hung", "hang"}, {"kept", "keep"}, {"knelt", "kneel"}, {"learnt", "learn"}, {"led", "lead"}, {"left", "leave"},
    {"lent", "lend"}, {"lost", "lose"}, {"made", "make"}, {"meant", "mean"}, {"met", "meet"}, {"paid", "pay"},
    {"ran", "run"}, {"rang", "ring"}, {"ridden", "ride"}, {"risen", "rise"}, {"rode", "ride"}, {"sang", "sing"},
    {"sung", "sing"}, {"sank", "sink"}, {"sat", "sit"}, {"saw", "see"}, {"seen", "see"}, {"sent", "send"},
    {"sewn", "sew"}, {"shaken", "shake"}, {"shook", "shake"}, {"shone", "shine"}, {"shot", "shoot"}, {"shown", "show"},
    {"slept", "sleep"}, {"slid", "slide"}, {"sold", "sell"}, {"sought", "seek"}, {"spent", "spend"},
    {"spoke", "speak"}, {"spoken", "speak"}, {"spun", "spin"}, {"stole", "steal"}, {"stolen", "steal"},
    {"stood", "stand"}, {"struck", "strike"}, {"stuck", "stick"}, {"swam", "swim"}, {"swum", "swim"},
    {"swept", "sweep"}, {"swore", "swear"}, {"sworn", "swear"}, {"swung", "swing"}, {"taken", "take"},
    {"took", "take"}, {"taught", "teach"}, {"thought", "think"}, {"threw", "throw"}, {"thrown", "throw"},
    {"tore", "tear"}, {"torn", "tear"}, {"understood", "understand"}, {"wept", "weep"}, {"woke", "wake"},
    {"woken", "wake"}, {"won", "win"}, {"wore", "wear"}, {"worn", "wear"}, {"written", "write"}, {"wrote", "write"},
    /* nouns */
    {"children", "child"}, {"feet", "foot"}, {"geese", "goose"}, {"halves", "half"}, {"knives", "knife"},
    {"men", "man"}, {"mice", "mouse"}, {"people", "person"}, {"shelves", "shelf"}, {"teeth", "tooth"},
    {"thieves", "thief"}, {"wives", "wife"}, {"wolves", "wolf"}, {"women", "woman"},
    /* as people write to each other */
    {"bday", "birthday"}, {"bike", "bicycle"}, {"bikes", "bicycle"}, {"dad", "father"}, {"daddy", "father"},
    {"dads", "father"}, {"fam", "family"}, {"fav", "favorite"}, {"fave", "favorite"}, {"faves", "favorite"},
    {"granddad", "grandfather"}, {"grandad", "grandfather"}, {"grandma", "grandmother"}, {"grandpa", "grandfather"},
    {"granny", "grandmother"}, {"hubby", "husband"}, {"kid", "child"}, {"kids", "child"}, {"mom", "mother"},
    {"mommy", "mother"}, {"moms", "mother"}, {"movie", "film"}, {"movies", "film"}, {"mum", "mother"},
    {"mums", "mother"}, {"photograph", "photo"}, {"photographs", "photo"}, {"pic", "photo"}, {"pics", "photo"},
    {"picture", "photo"}, {"pictures", "photo"}, {"tv", "television"}, {"tvs", "television"},
    /* British spellings */
    {"behaviour", "behavior"}, {"centre", "center"}, {"centres", "center"}, {"colour", "color"}, {"colours", "color"},
    {"favourite", "favorite"}, {"favourites", "favorite"}, {"flavour", "flavor"}, {"flavours", "flavor"},
    {"grey", "gray"}, {"honour", "honor"}, {"humour", "humor"}, {"jewellery", "jewelry"}, {"neighbour", "neighbor"},
    {"neighbours", "neighbor"}, {"organise", "organize"}, {"organised", "organize"}, {"organising", "organize"},
    {"programme", "program"}, {"programmes", "program"}, {"theatre", "theater"}, {"theatres", "theater"},
};

#endif
